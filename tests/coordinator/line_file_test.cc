// Lines are whole, whatever the writer died of and whatever the disk does not take.

#include "coordinator/line_file.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace skerry;
namespace fs = std::filesystem;

namespace {

class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (fs::temp_directory_path() / "skerry-lines-XXXXXX").string();
    const int file = mkstemp(name.data());
    REQUIRE(file >= 0);
    path_ = name;
  }
  ~TemporaryFile() { fs::remove(path_); }
  const std::string& path() const { return path_; }
  std::string Text() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }

 private:
  std::string path_;
};

LineFile MustOpen(const std::string& path) {
  auto file = LineFile::Open(path);
  REQUIRE(file.ok());
  return *std::move(file);
}

// No file of this process may grow beyond `bytes`: a disk that is full, and takes part of a line.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FullDisk() {
    if (setrlimit(RLIMIT_FSIZE, &old_) != 0) std::abort();
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("LineFile: what a dead writer left of a line is cut, whole lines stay", "[lines]") {
  const TemporaryFile file;
  const auto [before, after] = GENERATE(table<std::string, std::string>({
      {"", "new\n"},
      {"one\ntwo\n", "one\ntwo\nnew\n"},
      {"one\ntw", "one\nnew\n"},
      {"on", "new\n"},
      {"one\n" + std::string(10'000, 'x'), "one\nnew\n"},
  }));
  file.Write(before);
  MustOpen(file.path()).Append("new");
  CHECK(file.Text() == after);
}

TEST_CASE("LineFile: what a full disk does not take comes later, in order, and never by halves",
          "[lines][error]") {
  const TemporaryFile file;
  LineFile lines = MustOpen(file.path());
  lines.Append("first");
  {
    const FullDisk full(10);
    lines.Append("second, too long");
    lines.Append("third");
    CHECK(lines.waiting() == 2);
    CHECK(file.Text() == "first\n");
  }
  lines.Append("fourth");
  CHECK(lines.waiting() == 0);
  CHECK(lines.dropped() == 0);
  CHECK(file.Text() == "first\nsecond, too long\nthird\nfourth\n");
}

TEST_CASE("LineFile: on a disk that stays full the oldest lines are dropped and counted",
          "[lines][error]") {
  const TemporaryFile file;
  LineFile lines = MustOpen(file.path());
  {
    const FullDisk full(1);
    for (int i = 0; i < 5; ++i) lines.Append(std::string(LineFile::kWaitingBytesMax / 4, 'x'));
    CHECK(lines.dropped() == 2);
  }
  lines.Append("last");
  CHECK(lines.waiting() == 0);
  CHECK(file.Text().ends_with("last\n"));
}
