// What a command that empties its --out first may take away.
#include "sim/out_directory.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/status.h"
#include "model/file_io.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

const OutDirectory kSoak{"soak", {"leg"}, {"data", "leg"}};

// A directory of a test's own.
struct OutPlace {
  OutPlace() {
    std::string made = (fs::temp_directory_path() / "skerry-out-XXXXXX").string();
    REQUIRE(mkdtemp(made.data()) != nullptr);
    path = made;
  }
  ~OutPlace() { fs::remove_all(path); }
  fs::path path;
};

void Write(const fs::path& file) {
  fs::create_directories(file.parent_path());
  REQUIRE(ReplaceText(file.string(), "x").ok());
}

}  // namespace

TEST_CASE("OutDirectory: what somebody else keeps there is not touched, and that is said",
          "[sim][error]") {
  const OutPlace place;
  const fs::path run = place.path / "run";
  Write(run / "data" / "train-00000.tok");
  const absl::Status refused = PrepareOut(run, kSoak);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(ErrorText(refused).find("it holds 'data', and no earlier 'soak' was there") !=
        std::string::npos);
  CHECK(fs::exists(run / "data" / "train-00000.tok"));
  CHECK_FALSE(fs::exists(run / ".skerry-soak"));
}

TEST_CASE("OutDirectory: of an earlier one only what it makes is taken away", "[sim]") {
  const OutPlace place;
  const fs::path out = place.path / "a" / "soak-out";
  REQUIRE(PrepareOut(out, kSoak).ok());  // new
  Write(out / "data" / "train-00000.tok");
  Write(out / "notes.txt");
  REQUIRE(PrepareOut(out, kSoak).ok());
  CHECK_FALSE(fs::exists(out / "data"));
  CHECK(fs::exists(out / "notes.txt"));
  CHECK_FALSE(PrepareOut(out, {"emulate", {"logs/run.toml"}, {"run"}}).ok());

  const fs::path older = place.path / "older";  // made before there was a mark
  Write(older / "leg" / "run" / "run.toml");
  Write(older / "text.txt");
  REQUIRE(PrepareOut(older, kSoak).ok());
  CHECK_FALSE(fs::exists(older / "leg"));

  const fs::path empty = place.path / "empty";
  fs::create_directories(empty);
  CHECK(PrepareOut(empty, kSoak).ok());
}

TEST_CASE("OutDirectory: a file in its place is an error that names it", "[sim][error]") {
  const OutPlace place;
  Write(place.path / "file");
  const std::string said = ErrorText(PrepareOut(place.path / "file", kSoak));
  CHECK(said.find("file: ") != std::string::npos);
}
