#include "node/volunteer_limits.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "node/limits_program.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

constexpr int Minute(int hour, int minute = 0) {
  return 60 * hour + minute;
}

struct LimitsFile {
  LimitsFile() {
    std::string name = (std::filesystem::temp_directory_path() / "skerry-limits-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    directory = name;
    path = name + "/limits.toml";
  }
  ~LimitsFile() { std::filesystem::remove_all(directory); }
  void Write(const std::string& text) const { std::ofstream(path, std::ios::trunc) << text; }
  std::string directory, path;
};

}  // namespace

TEST_CASE("Limits: hours go over midnight, and end before their last minute", "[node][limits]") {
  const auto night = ParseHours("22-08");
  REQUIRE(night.ok());
  CHECK(IsWithin(*night, Minute(22)));
  CHECK(IsWithin(*night, Minute(0)));
  CHECK(IsWithin(*night, Minute(7, 59)));
  CHECK_FALSE(IsWithin(*night, Minute(8)));
  CHECK_FALSE(IsWithin(*night, Minute(21, 59)));
  const auto day = ParseHours("8:30-24:00");
  REQUIRE(day.ok());
  CHECK(FormatHours(*day) == "08:30-00:00");
  CHECK(IsWithin(*day, Minute(23, 59)));
  CHECK_FALSE(IsWithin(*day, Minute(0)));
  CHECK_FALSE(IsWithin(*day, Minute(8, 29)));
  for (const char* wrong :
       {"", "22", "22-", "-8", "25-8", "8:60-9", "8-8", "a-b", "22-08-09", "-1-3"})
    CHECK_FALSE(ParseHours(wrong).ok());
}

TEST_CASE("Limits: a file is read as it was written, a wrong one is named by line",
          "[node][limits]") {
  const LimitsFile file;
  CHECK(*LoadLimits(file.path) == VolunteerLimits());
  VolunteerLimits limits{5.5, 20, 0.25, DailyHours{Minute(22, 30), Minute(8)}};
  REQUIRE(SaveLimits(file.path, limits).ok());
  CHECK(*LoadLimits(file.path) == limits);
  CHECK(Describe(limits) == "up 5.5 Mbit/s, down 20 Mbit/s, 0.25 GB a day, from 22:30-08:00");
  CHECK(Describe(VolunteerLimits()) == "none");
  file.Write("up_mbit = 3\nup_mbits = 4\n");
  CHECK(LoadLimits(file.path).status().message().find(":2") != absl::string_view::npos);
  file.Write("up_mbit = -3\n");
  CHECK_FALSE(LoadLimits(file.path).ok());
  file.Write("hours = \"whenever\"\n");
  CHECK_FALSE(LoadLimits(file.path).ok());
}

TEST_CASE("Limits: whether a node yields its GPU is kept in the file", "[node][limits]") {
  const LimitsFile file;
  VolunteerLimits limits;
  limits.yields_gpu = true;
  CHECK_FALSE(Describe(limits) == Describe(VolunteerLimits()));
  REQUIRE(SaveLimits(file.path, limits).ok());
  CHECK(*LoadLimits(file.path) == limits);
}

TEST_CASE("Limits: a GPU is others' after two readings, and ours again after a quiet while",
          "[node][limits]") {
  GpuYield gpu;
  gpu.Note(0, 0.5);
  CHECK_FALSE(gpu.IsTaken());
  gpu.Note(5, 0.05);  // a desktop that is drawn
  gpu.Note(10, 0.5);
  CHECK_FALSE(gpu.IsTaken());
  gpu.Note(15, 0.5);
  CHECK(gpu.IsTaken());
  gpu.Note(15 + GpuYield::kQuietS - 1, 0);
  CHECK(gpu.IsTaken());
  gpu.Note(15 + GpuYield::kQuietS, 0);
  CHECK_FALSE(gpu.IsTaken());
}

TEST_CASE("Limits: a day's bytes are counted over restarts, and begin anew at midnight",
          "[node][limits]") {
  VolunteerLimits limits;
  limits.daily_gb = 1e-6;  // 1000 bytes
  DayBudget budget;
  budget.Note(7, 400);
  CHECK(WhyRest(limits, budget, 7, 0).empty());
  budget.Note(7, 100);  // a new process begins at zero
  budget.Note(7, 599);
  CHECK(budget.bytes() == 999);
  CHECK(WhyRest(limits, budget, 7, 0).empty());
  budget.Note(7, 600);
  CHECK(WhyRest(limits, budget, 7, 0).find("spent") != std::string::npos);
  CHECK(WhyRest({}, budget, 7, 0).empty());
  CHECK(WhyRest(limits, budget, 8, 0).empty());  // midnight
  budget.Note(8, 650);
  CHECK(budget.bytes() == 50);
  DayBudget resumed;
  resumed.Resume(8, 990);
  resumed.Note(8, 10);
  CHECK(resumed.IsSpent(limits, 8));
  limits.hours = DailyHours{Minute(22), Minute(8)};
  CHECK(WhyRest(limits, DayBudget(), 8, Minute(12)).find("22:00-08:00") != std::string::npos);
  CHECK(WhyRest(limits, DayBudget(), 8, Minute(23)).empty());
}

TEST_CASE("Limits: a node that rests ends at the first interrupt", "[node][limits]") {
  const LimitsFile file;
  std::ofstream(file.directory + "/" + kPausedFile).flush();
  Rationing ration(file.directory);
  REQUIRE(ration.Begin().ok());
  int seconds = 0;
  CHECK_FALSE(ration.WaitUntilAllowed([&](const std::string&) {
    if (++seconds == 1) std::raise(SIGINT);
    REQUIRE(seconds == 1);
  }));
  std::filesystem::remove(file.directory + "/" + kPausedFile);
  CHECK(ration.WaitUntilAllowed([](const std::string&) {}));
}
