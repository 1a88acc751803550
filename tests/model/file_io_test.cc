// A text that takes another's place, on disks that are full and where no file is.
#include "model/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "common/status.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

TEST_CASE("ReplaceText: a full disk leaves what was there", "[model][error]") {
  const TemporaryDirectory directory;
  const std::string at = directory.Join("status.json"), partial = at + ".partial";
  REQUIRE(ReplaceText(at, "one").ok());
  std::filesystem::create_symlink("/dev/full", partial);

  const absl::Status refused = ReplaceText(at, "two");

  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(ErrorText(refused).find("make room and try again [SK-disk-write]") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(partial)));
  CHECK(*ReadSmallFile(at, 100) == "one");
}

TEST_CASE("ReplaceText: a pipe is written into and stays a pipe", "[model]") {
  const TemporaryDirectory directory;
  const std::string at = directory.Join("pipe");
  REQUIRE(mkfifo(at.c_str(), 0600) == 0);
  const int reader = open(at.c_str(), O_RDONLY | O_NONBLOCK);

  REQUIRE(ReplaceText(at, "told").ok());

  char text[8] = {};
  CHECK(read(reader, text, sizeof text) == 4);
  CHECK(std::string(text) == "told");
  CHECK(std::filesystem::is_fifo(at));
  close(reader);
}

TEST_CASE("ReplaceText: a directory in its place is said", "[model][error]") {
  const TemporaryDirectory directory;
  const absl::Status refused = ReplaceText(directory.path(), "text");
  CHECK(ErrorText(refused).find(directory.path() + ": cannot open: Is a directory") !=
        std::string::npos);
}

}  // namespace
}  // namespace skerry
