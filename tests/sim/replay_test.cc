// Real runs again on virtual time. The "real" ones here are simulated, so that what should come out
// is known.
#include "sim/replay.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "sim/run_report.h"
#include "sim/scenario_run.h"
#include "tests/sim/two_cities.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

// A directory of its own, gone with the test.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "skerry-replay-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Scratch() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
  }

 private:
  fs::path path_;
};

// Three nodes, all links 80 ms and 100 Mbit/s but b → a.
ReplayedRun ByHand() {
  RunReport report;
  report.nodes = {
      {"aa11", "eu-west", "cpu", 50}, {"bb22", "eu-west", "cpu", 40}, {"cc33", "us", "cpu", 0}};
  report.stages = {{0, 4, {"aa11"}}, {4, 8, {"cc33", "bb22"}}};
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"aa11", "bb22"},
                                                        {"aa11", "cc33"},
                                                        {"bb22", "cc33"},
                                                        {"cc33", "aa11"},
                                                        {"cc33", "bb22"}}) {
    report.links[{from, to}] = {80, 100};
  }
  const auto run = ReplayedRunOf(report, RunConfig());
  INFO(run.status().message());
  REQUIRE(run.ok());
  return *run;
}

std::string Refusal(const std::string& what_if) {
  const auto run = WithChange(ByHand(), what_if);
  INFO(what_if);
  REQUIRE_FALSE(run.ok());
  return std::string(run.status().message());
}

TEST_CASE("Replay: a log becomes nodes and links, and what is missing is said", "[sim][replay]") {
  const ReplayedRun run = ByHand();

  REQUIRE(run.nodes.size() == 3);
  CHECK(run.config.nodes_min == 3);
  CHECK(run.nodes[2].gflops == 50);  // not measured: the median
  CHECK(run.links.size() == 6);
  CHECK(run.links.at({1, 0}).rtt_s == Approx(0.08));  // not measured: the way back
  CHECK(run.links.at({1, 0}).bytes_per_s == Approx(12.5e6));
  std::string notes;
  for (const std::string& note : run.notes) notes += note + "\n";
  CHECK(notes.find("1 of 6 directed links") != std::string::npos);
  CHECK(notes.find("cc33 did not say its rate") != std::string::npos);
}

TEST_CASE("Replay: a what-if changes what it names and nothing else", "[sim][replay]") {
  const ReplayedRun run = ByHand();

  const auto more = WithChange(run, "add-node:us:75");
  REQUIRE(more.ok());
  REQUIRE(more->nodes.size() == 4);
  CHECK(more->config.nodes_min == 4);
  CHECK(more->nodes[3].region == "us");
  CHECK(more->nodes[3].gflops == 75);
  CHECK(more->links.at({3, 0}) == run.links.at({2, 0}));
  CHECK(more->links.size() == 12);

  CHECK(WithChange(run, "add-node:like:bb")->nodes[3].gflops == 40);

  const auto fewer = WithChange(run, "remove-node:aa");
  REQUIRE(fewer.ok());
  CHECK(fewer->nodes[0].id == "bb22");
  CHECK(fewer->links.size() == 2);

  // "eu-west" has a dash of its own.
  const auto slow = WithChange(run, "link:eu-west>cc33:mbps=8,rtt_ms=200");
  REQUIRE(slow.ok());
  CHECK(slow->links.at({0, 2}) == ReplayLink{0.2, 1e6});
  CHECK(slow->links.at({2, 0}) == run.links.at({2, 0}));
  CHECK(WithChange(run, "link:us-eu-west:mbps=8")->links.at({1, 2}).bytes_per_s == 1e6);

  const auto both = WithChange(run, "set:outer.codec=int4; remove-node:cc33");
  REQUIRE(both.ok());
  CHECK(both->config.outer.codec == DeltaCodec::kInt4);
  CHECK(both->nodes.size() == 2);
}

TEST_CASE("Replay: a what-if that cannot be is told what there is", "[sim][replay]") {
  CHECK(Refusal("add-node:ue-west:5").find("nearest is 'eu-west'") != std::string::npos);
  CHECK(Refusal("remove-node:dd").find("aa11, bb22, cc33") != std::string::npos);
  CHECK(Refusal("set:outer.codex=int4").find("nearest is 'outer.codec'") != std::string::npos);
  CHECK(Refusal("ad-node:us:5").find("nearest is 'add-node'") != std::string::npos);
  for (const char* wrong : {"add-node:us:fast", "add-node:us:0", "add-node:us", "remove-node:",
                            "link:aa11-bb22", "link:aa11-xx:mbps=1", "link:aa11-bb22:mpbs=1",
                            "link:aa11-bb22:mbps=", "set:pipeline.stages=7", "nonsense"}) {
    Refusal(wrong);
  }
}

namespace {

void CheckShares(const ReplayedRun& run, double step_s) {
  std::vector<double> simulation, fit;
  Simulate(run, 24, 1, [&](double share) { simulation.push_back(share); });
  FitDeviceShare(run, step_s, 24, 1, [&](double share) { fit.push_back(share); });
  CHECK(simulation.size() >= 24);
  CHECK(std::is_sorted(simulation.begin(), simulation.end()));
  CHECK(simulation.front() > 0);
  CHECK(simulation.back() == 1);
  REQUIRE_FALSE(fit.empty());
  CHECK(std::is_sorted(fit.begin(), fit.end()));
  CHECK(fit.back() <= 1);
}

}  // namespace

TEST_CASE("Replay: a run is found again in its own log, at its own speed", "[sim][replay]") {
  // What many flows share cannot be seen in one probe: here nothing is shared.
  Scenario scenario = TwoCities();
  for (PathSpec& path : scenario.network.paths) path.bytes_per_s = 0;
  // So long that the probes before its plan, which a replay has not, are few of its bytes.
  scenario.run.steps = 96;
  auto original = *MakeScenarioRun(scenario, {});
  const VirtualOutcome outcome = original->Run();
  REQUIRE(outcome.finished);
  const Scratch scratch;
  scratch.Write("run/events.jsonl", EventLogOf(*original));

  const auto replayed = LoadReplayedRun(scratch.path());
  INFO(replayed.status().message());
  REQUIRE(replayed.ok());
  CHECK(replayed->config == original->options().config);  // from the log's first line
  const ReplayFigures measured = FiguresOf(replayed->report);
  CHECK(measured.step_s == Approx(outcome.step_s).epsilon(0.001));
  const ReplayFigures simulated = Simulate(*replayed, 24, 1);
  CHECK(simulated.wrong == "");
  CHECK(simulated.step_s == Approx(measured.step_s).epsilon(0.2));
  CHECK_FALSE(simulated.planned_anew);
  CHECK(simulated.bytes_per_token == Approx(measured.bytes_per_token).epsilon(0.1));

  SECTION("run.toml goes before the log's line") {
    RunConfig other = original->options().config;
    other.name = "from the file";
    scratch.Write("run.toml", FormatRunConfig(other));
    CHECK(LoadReplayedRun(scratch.path())->config.name == "from the file");
  }
  SECTION("the share of the devices' rates is found from the step alone") {
    // So slow that the devices decide how long a step takes, not the lines.
    ReplayedRun slow = *replayed;
    slow.device_share = 0.05;
    const double step_s = Simulate(slow, 8, 1).step_s;
    CHECK(step_s > 2 * Simulate(*replayed, 8, 1).step_s);
    CHECK(FitDeviceShare(*replayed, step_s, 8, 1) == Approx(0.05).epsilon(0.1));
  }
  SECTION("who waits hears of all that is done, to the end") {
    CheckShares(*replayed, measured.step_s);
  }
  SECTION("with less in flight it is slower") {
    const auto shallow = WithChange(*replayed, "set:pipeline.in_flight=1");
    REQUIRE(shallow.ok());
    const ReplayFigures figures = Simulate(*shallow, 24, 1);
    CHECK(figures.step_s > simulated.step_s);
    CHECK_FALSE(figures.planned_anew);
  }
  SECTION("another cut is planned anew, an impossible one is refused") {
    const auto deep = WithChange(*replayed, "set:pipeline.stages=8");
    REQUIRE(deep.ok());
    const ReplayFigures figures = Simulate(*deep, 8, 1);
    CHECK(figures.wrong == "");
    CHECK(figures.planned_anew);
    CHECK_FALSE(WithChange(*replayed, "set:pipeline.stages=9").ok());
  }
}

TEST_CASE("Replay: what the ends take of a probe is not the line", "[sim][replay]") {
  CHECK(LineRateOf({0.1, 1e6}) == Approx(1e6).epsilon(0.01));
  // 100 MB/s read: 10 ns a byte, of which the ends take 4.4.
  CHECK(LineRateOf({0.1, 1e8}) == Approx(1 / 5.6e-9));
  CHECK(LineRateOf({0.1, 1.2e8}) == 0);
}

TEST_CASE("Replay: a directory without a run is refused by what is missing", "[sim][replay]") {
  const Scratch scratch;
  const auto empty = LoadReplayedRun(scratch.path());
  REQUIRE_FALSE(empty.ok());
  CHECK(std::string(empty.status().message()).find("events.jsonl") != std::string::npos);

  scratch.Write("events.jsonl", "{\"t\":0,\"kind\":\"run\",\"run\":\"ab\"}\n");
  const auto bare = LoadReplayedRun(scratch.path());
  REQUIRE_FALSE(bare.ok());
  CHECK(std::string(bare.status().message()).find("run.toml") != std::string::npos);

  scratch.Write("run.toml", FormatRunConfig(RunConfig()));
  CHECK(LoadReplayedRun(scratch.path()).status().code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace skerry
