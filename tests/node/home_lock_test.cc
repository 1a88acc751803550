#include "node/home_lock_program.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

using namespace skerry;
namespace fs = std::filesystem;

namespace {

struct Home {
  fs::path path = fs::temp_directory_path() / ("skerry_home_" + std::to_string(::getpid()));
  Home() { fs::create_directories(path); }
  ~Home() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("HomeLock: a second process of one home is refused, and told which one lives there",
          "[node]") {
  const Home home;
  const auto first = HomeLock::Take(home.path.string());
  REQUIRE(first.ok());

  const auto second = HomeLock::Take(home.path.string());

  REQUIRE(absl::IsFailedPrecondition(second.status()));
  const std::string why(second.status().message());
  CHECK(why.find("process " + std::to_string(::getpid())) != std::string::npos);
  CHECK(why.find("--home") != std::string::npos);
}

TEST_CASE("HomeLock: a home is free again when its process is gone, whatever it left there",
          "[node]") {
  const Home home;
  {
    const auto first = HomeLock::Take(home.path.string());
    REQUIRE(first.ok());
  }
  CHECK(fs::exists(home.path / "lock"));
  CHECK(HomeLock::Take(home.path.string()).ok());
}

TEST_CASE("HomeLock: who looks whether somebody lives there is in nobody's way", "[node]") {
  const Home home;
  const std::string at = home.path.string();
  CHECK(HomeLock::Look(at).ok());
  CHECK_FALSE(fs::exists(home.path / "lock"));

  std::atomic<bool> ends = false;
  std::atomic<int64_t> looks = 0;
  {
    const auto first = HomeLock::Take(at);
    REQUIRE(first.ok());
    CHECK(absl::IsFailedPrecondition(HomeLock::Look(at)));
  }
  std::thread looker([&] {
    while (!ends) {
      static_cast<void>(HomeLock::Look(at));
      ++looks;
    }
  });
  int refused = 0;
  for (int i = 0; i < 100 || looks < 100; ++i) refused += HomeLock::Take(at).ok() ? 0 : 1;
  ends = true;
  looker.join();
  CHECK(refused == 0);
}

TEST_CASE("HomeLock: a home that cannot be written is an error with its name", "[node][error]") {
  const auto lock = HomeLock::Take("/nowhere/at/all");
  REQUIRE(absl::IsUnavailable(lock.status()));
  CHECK(std::string(lock.status().message()).find("/nowhere/at/all/lock") != std::string::npos);
}
