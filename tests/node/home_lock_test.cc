#include "node/home_lock.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

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

TEST_CASE("HomeLock: a home that cannot be written is an error with its name", "[node][error]") {
  const auto lock = HomeLock::Take("/nowhere/at/all");
  REQUIRE(absl::IsUnavailable(lock.status()));
  CHECK(std::string(lock.status().message()).find("/nowhere/at/all/lock") != std::string::npos);
}
