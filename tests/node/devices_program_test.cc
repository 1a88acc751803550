// `join --devices`, as volunteers run it: real programs, a whole run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "common/status.h"
#include "sim/child_process.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr char kRun[] = R"(
[run]
name = "two devices"
seed = 3
steps = 12
nodes_min = 1
[model]
vocab = 256
hidden = 32
layers = 2
heads = 2
kv_heads = 1
ffn = 64
context = 32
[outer]
inner_steps = 4
overlap_steps = 1
[pipeline]
stages = 1
skip_ratio = 0.0
microbatches_per_step = 2
sequences_per_microbatch = 4
in_flight = 2
)";

std::string TextOf(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Fixture {
 public:
  Fixture() : bin_(fs::canonical("/proc/self/exe").parent_path().string() + "/") {
    std::string name = (fs::temp_directory_path() / "skerry-devices-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    at = name;
    std::ofstream(at / "run.toml") << kRun;
    std::ofstream text(at / "text.txt");
    for (int i = 0; i < 20'000; ++i) text << "line " << i * 7919 % 1000 << " of it.\n";
    text.close();
    Run({"skerry-coordinator", "data", "prepare", Path("text.txt"), "--out", Path("data")});
    Run({"skerry-coordinator", "init", Path("run"), "--config", Path("run.toml"), "--shards",
         Path("data")});
  }
  ~Fixture() {
    std::error_code error;
    fs::remove_all(at, error);
  }

  std::string Run(CommandLine command) const {
    command.front() = bin_ + command.front();
    INFO(QuoteCommand(command));
    const auto said = RunAndCapture(command);
    REQUIRE(said.ok());
    return said->substr(0, said->find_last_not_of('\n') + 1);
  }
  ChildProcess Start(CommandLine command, const std::string& log) const {
    command.front() = bin_ + command.front();
    auto process = ChildProcess::Start(command, Path(log));
    REQUIRE(process.ok());
    return *std::move(process);
  }
  // The model that the run's text makes of devices in one process.
  nlohmann::json Reference(const std::string& devices, const std::string& out) const {
    return nlohmann::json::parse(
        Run({"skerry-node", "reference", "--config", Path("run.toml"), "--data", Path("data"),
             "--devices", devices, "--out", Path(out), "--json"}));
  }
  std::string Path(const std::string& name) const { return (at / name).string(); }
  std::string Weights(const std::string& model) const {
    const std::string bytes = TextOf(at / model / "model.safetensors");
    REQUIRE(bytes.size() > 10'000);
    return bytes;
  }

  fs::path at;

 private:
  std::string bin_;
};

void WaitFor(const fs::path& file, const std::string& words, ChildProcess& writer) {
  while (TextOf(file).find(words) == std::string::npos) {
    INFO(TextOf(file));
    REQUIRE(writer.Ended() == "");
    sched_yield();
  }
}

}  // namespace

TEST_CASE("Devices: a node of two trains a run, bit for bit as they do in one process",
          "[node][processes]") {
  const Fixture here;
  ChildProcess coordinator = here.Start({"skerry-coordinator", "serve", here.Path("run"),
                                         "--dashboard", "none", "--bind", "tcp://127.0.0.1:*"},
                                        "coordinator.log");
  WaitFor(here.at / "coordinator.log", "serving run", coordinator);
  const std::string ticket = here.Run({"skerry-coordinator", "ticket", here.Path("run")});

  ChildProcess node =
      here.Start({"skerry-node", "join", ticket, "--home", here.Path("home"), "--listen",
                  "tcp://127.0.0.1:*", "--devices", "cpu,cpu", "--threads", "1"},
                 "node.log");

  CHECK(node.Wait() == "exit code 0");
  CHECK(coordinator.Wait() == "exit code 0");
  const std::string said = TextOf(here.at / "node.log");
  INFO(said);
  CHECK(said.find("training uses cpu, cpu") != std::string::npos);
  CHECK(said.find("2 × ") != std::string::npos);
  const auto two = here.Reference("cpu,cpu", "two"), one = here.Reference("cpu", "one");
  CHECK(here.Weights("run/model") == here.Weights("two"));
  CHECK(here.Weights("run/model") != here.Weights("one"));  // sums of other roundings
  CHECK(std::abs(two["loss"].get<double>() - one["loss"].get<double>()) < 1e-4);
}

TEST_CASE("Devices: doctor says what they are together, and what is no device",
          "[node][processes]") {
  const Fixture here;
  const std::string said =
      here.Run({"skerry-node", "doctor", "--devices", "cpu,cpu", "--home", here.Path("home")});
  CHECK(said.find("together") != std::string::npos);
  CHECK(said.find("2 × ") != std::string::npos);
  ChildProcess wrong = here.Start({"skerry-node", "join", "skerry1-x", "--home", here.Path("home"),
                                   "--devices", "cpu", "--device", "cpu"},
                                  "wrong.log");
  CHECK(wrong.Wait() != "exit code 0");
  CHECK(TextOf(here.at / "wrong.log").find("excludes") != std::string::npos);
}

}  // namespace skerry
