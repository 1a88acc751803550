// The soak's draws and measures, and one small soak of real processes: the coordinator and two
// nodes of one stage, disturbed by script.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/status.h"
#include "sim/scenario.h"
#include "sim/soak_draw.h"
#include "sim/soak_leg.h"
#include "sim/soak_progress.h"

using namespace skerry;
namespace fs = std::filesystem;

namespace {

Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

// Two stages of two replicas that have worked for a while, and a spare.
SoakFleet WholeFleet() {
  SoakFleet fleet;
  fleet.can_cut = fleet.can_fill = true;
  for (const int32_t stage : {0, 0, 1, 1, -1}) {
    fleet.members.push_back({stage, stage < 0 ? 0.0 : 100.0, false});
  }
  return fleet;
}

std::string Line(const std::string& kind, const std::string& fields = "\"step\":1") {
  return R"({"t":1,"kind":")" + kind + "\"," + fields + "}\n";
}

std::string Applied(int stage, int round, const std::string& digest) {
  return Line("applied", R"("stage":)" + std::to_string(stage) + R"(,"round":)" +
                             std::to_string(round) + R"(,"digest":")" + digest + "\"");
}

RunConfig SmallRun() {
  RunConfig run;
  run.steps = 1200;  // longer than the script takes on a fast machine
  run.nodes_min = 2;
  run.heartbeat_s = 0.2;
  run.node_silent_s = 2;
  run.model.hidden = 32;
  run.model.layers = 2;
  run.model.heads = 2;
  run.model.kv_heads = 1;
  run.model.ffn = 64;
  run.model.context = 32;
  run.outer.inner_steps = 8;
  run.outer.overlap_steps = 2;
  run.pipeline.stages = 1;
  run.pipeline.skip_ratio = 0;
  return run;
}

}  // namespace

TEST_CASE("Soak: the same stream draws the same faults, and every kind comes", "[sim][soak]") {
  Rng one(7, "soak"), other(7, "soak");
  const SoakFleet fleet = WholeFleet();
  std::set<SoakFault> kinds;
  for (int i = 0; i < 400; ++i) {
    const auto event = DrawSoakEvent(one, fleet);
    const auto again = DrawSoakEvent(other, fleet);
    REQUIRE(event.has_value() == again.has_value());
    if (!event) continue;
    CHECK(TextOf(*event) == TextOf(*again));
    CHECK(event->lasts > Duration());
    kinds.insert(event->fault);
  }
  CHECK(kinds.size() == kSoakFaults);
}

TEST_CASE("Soak: the last replica of a stage that has worked for a while is spared",
          "[sim][soak]") {
  SoakFleet fleet = WholeFleet();
  const int what = GENERATE(0, 1, 2, 3);
  if (what == 0) fleet.members[1].disturbed = true;
  if (what == 1) fleet.members[1].working_s = 0;
  if (what == 2) fleet.members[1].working_s = kSettledS / 2;
  if (what == 3) {  // a coordinator that has just begun does not know yet who works
    for (SoakMember& member : fleet.members) member.working_s = 0;
  }
  Rng rng(1, "soak");
  for (int i = 0; i < 400; ++i) {
    const auto event = DrawSoakEvent(rng, fleet);
    if (event) CHECK(event->node != 1);
  }
}

TEST_CASE("Soak: what the machine does not allow is not drawn", "[sim][soak]") {
  SoakFleet fleet = WholeFleet();
  fleet.can_cut = fleet.can_fill = false;
  Rng rng(1, "soak");
  for (int i = 0; i < 400; ++i) {
    const auto event = DrawSoakEvent(rng, fleet);
    if (!event) continue;
    CHECK(event->fault != SoakFault::kCutNode);
    CHECK(event->fault != SoakFault::kCutPair);
    CHECK(event->fault != SoakFault::kFullDisk);
    CHECK(event->fault != SoakFault::kFullNodeDisk);
  }
}

TEST_CASE("Soak: a gap is the longest time without a step or a round", "[sim][soak]") {
  SoakProgress progress;
  progress.Feed(At(1), Line("step"));
  progress.Feed(At(2), Line("round"));
  progress.Feed(At(3), Line("link"));  // no progress
  progress.Feed(At(6), Line("step"));
  progress.Feed(At(7), Line("step"));
  CHECK(progress.LongestGap(At(0), At(10)) == Duration::Seconds(4));
  CHECK(progress.LongestGap(At(5), At(10)) == Duration::Seconds(3));   // 7 to the end
  CHECK(progress.LongestGap(At(1.5), At(3)) == Duration::Seconds(4));  // begun before 3
  CHECK(progress.FirstMarkAfter(At(2.5), At(9)) == At(6));
  CHECK(progress.FirstMarkAfter(At(8), At(9)) == At(9));
  CHECK(progress.steps() == 3);
  CHECK(progress.rounds() == 1);
}

TEST_CASE("Soak: half a line waits for the rest, what is none is a complaint", "[sim][soak]") {
  SoakProgress progress;
  const std::string line = Line("step");
  progress.Feed(At(1), line.substr(0, 10));
  CHECK(progress.steps() == 0);
  progress.Feed(At(2), line.substr(10));
  CHECK(progress.steps() == 1);
  CHECK(progress.complaints().empty());
  progress.Feed(At(3), line.substr(0, 10) + line);
  CHECK(progress.complaints().size() == 1);
}

TEST_CASE("Soak: replicas of one stage and round that hold different bases are a complaint",
          "[sim][soak]") {
  SoakProgress progress;
  progress.Feed(At(1), Applied(0, 3, "aa") + Applied(0, 3, "aa") + Applied(1, 3, "bb"));
  CHECK(progress.complaints().empty());
  progress.Feed(At(1), Applied(0, 3, "ab"));
  CHECK(progress.complaints().size() == 1);
  CHECK(progress.digests() == 4);
}

// As if they were of another version: each start of one of them is a line of `started`.
void WriteOtherPrograms(const std::string& programs, const fs::path& to, const fs::path& started) {
  fs::create_directories(to);
  for (const std::string name : {"skerry-coordinator", "skerry-node"}) {
    std::ofstream(to / name) << "#!/bin/sh\necho " << name << " >> " << started.string()
                             << "\nexec " << programs << "/" << name << " \"$@\"\n";
    fs::permissions(to / name, fs::perms::owner_all);
  }
}

TEST_CASE("Soak: real processes leave, are stopped and killed, and nothing is lost or left",
          "[sim][soak][processes]") {
  std::string root = (fs::temp_directory_path() / "skerry-soak-XXXXXX").string();
  REQUIRE(mkdtemp(root.data()) != nullptr);
  std::ofstream text(root + "/text.txt");
  for (int i = 0; i < 4000; ++i) text << "tide " << i % 7 << " and ebb " << i % 5 << ". ";
  text.close();
  const std::string programs = SKERRY_PROGRAMS_DIR;
  REQUIRE(RunAndCapture({programs + "/skerry-coordinator", "data", "prepare", root + "/text.txt",
                         "--out", root + "/data"})
              .ok());
  const auto scenario = ParseScenario(
      "name = \"small\"\ntext = \"text.txt\"\nregions = [\"hub\", \"place1\", \"place2\"]\n"
      "[pair_default]\nrtt_ms = 1\nunlimited = true\nflow_cap_mbps = 1000\n"
      "[coordinator]\nregion = \"hub\"\n[run]\nsteps = 16\nnodes_min = 2\n"
      "[[nodes]]\nregion = \"place1\"\n[[nodes]]\nregion = \"place2\"\n",
      root + "/scenario.toml");
  INFO(ErrorText(scenario.status()));
  REQUIRE(scenario.ok());
  auto network = EmulatedNetwork::Create(*scenario, EmulateShaper::kInProcess, root + "/wan.toml");
  REQUIRE(network.ok());
  SoakLegOptions options;
  options.number = 1;
  options.limit = Duration::Seconds(120);
  options.quiet = true;
  options.fleet.directory = root + "/leg";
  options.fleet.programs_dir = programs;
  options.fleet.other_programs_dir = root + "/other";
  WriteOtherPrograms(programs, root + "/other", root + "/started");
  options.fleet.shards = root + "/data";
  options.fleet.nodes = 2;
  options.fleet.spares = 0;
  options.fleet.run = SmallRun();
  options.script = {{SoakFault::kPauseServing, 0, 0, Duration::Millis(100)},
                    {SoakFault::kKillCoordinator, 0, 0, Duration::Millis(100)},
                    {SoakFault::kStopNode, 1, 0, Duration::Millis(300)},
                    {SoakFault::kLeave, 2, 0, Duration::Millis(200)}};

  const bool interrupted = false;
  const auto leg = RunSoakLeg(options, **network, interrupted);

  INFO(ErrorText(leg.status()));
  REQUIRE(leg.ok());
  CHECK(leg->complaints == std::vector<std::string>());
  CHECK(leg->events.size() == 4);
  CHECK(leg->leave_s.size() == 2);  // the coordinator's pause, the node's leave
  CHECK(leg->digests > 0);
  CHECK(leg->loss > 0);
  std::multiset<std::string> started;
  std::ifstream lines(root + "/started");
  for (std::string line; std::getline(lines, line);) started.insert(line);
  // The coordinator began with the other's, and came back with its own and the other's; so did
  // node 2, which came back with its own.
  CHECK(started ==
        std::multiset<std::string>{"skerry-coordinator", "skerry-coordinator", "skerry-node"});
  std::error_code error;
  fs::remove_all(root, error);
}
