// A volunteer's node beside a game on the same GPU: the program itself, and a driver that says what
// the test wants.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "tests/node/lone_volunteer.h"

using namespace skerry;
using skerry::testing::LoneVolunteer;
namespace fs = std::filesystem;

namespace {

// A node that yields its GPU, and what the GPU's driver says.
class Yielding {
 public:
  Yielding() {
    CommandLine limit = volunteer_.Node("limit");
    limit.insert(limit.end(), {"--yield-gpu", "on"});
    REQUIRE(RunAndCapture(limit).ok());
    const CommandLine join = volunteer_.Join();
    CommandLine command = {"/usr/bin/env", "LD_LIBRARY_PATH=" SKERRY_STAND_IN_DRIVER,
                           "SKERRY_STAND_IN_GPU=" + Gpu().string()};
    command.insert(command.end(), join.begin(), join.end());
    auto node = ChildProcess::Start(command, (volunteer_.directory() / "log").string());
    REQUIRE(node.ok());
    node_.emplace(*std::move(node));
  }

  void Says(const std::string& users) const {
    std::ofstream(Gpu().string() + ".new") << users;
    fs::rename(Gpu().string() + ".new", Gpu());
  }
  pid_t node() const { return node_->pid(); }
  std::string Log() const { return volunteer_.Text("log"); }
  auto Readings() const {
    const std::string asked = volunteer_.Text("gpu.asked");
    return std::count(asked.begin(), asked.end(), '\n');
  }
  void TurnOff() const {
    CommandLine limit = volunteer_.Node("limit");
    limit.insert(limit.end(), {"--yield-gpu", "off"});
    REQUIRE(RunAndCapture(limit).ok());
  }

 private:
  fs::path Gpu() const { return volunteer_.directory() / "gpu"; }

  LoneVolunteer volunteer_;
  std::optional<ChildProcess> node_;
};

bool Comes(const std::function<bool()>& condition) {
  constexpr int kLooksMax = 600;
  for (int look = 0; look < kLooksMax; ++look) {
    if (condition()) return true;
    poll(nullptr, 0, 100);  // another process does it
  }
  return false;
}

}  // namespace

TEST_CASE("A node that yields its GPU rests while others compute there, not for its own work",
          "[node][limits]") {
  const Yielding node;
  const auto says = [&](const char* text) { return node.Log().find(text) != std::string::npos; };
  const std::string own = std::to_string(node.node()) + " 90\n", test = std::to_string(getpid());
  node.Says(own + test + " 5\n");
  const auto before = node.Readings();
  REQUIRE(Comes([&] { return node.Readings() >= before + 3; }));
  CHECK_FALSE(says("the node rests"));

  node.Says(own + test + " 60\n");
  REQUIRE(Comes([&] { return says("the node rests: another program computes on the GPU"); }));
  node.TurnOff();
  CHECK(Comes([&] { return says("the node goes back to work"); }));
}
