// Cohorts of real programs: two rooms of three nodes, one of which loses its speaker.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/siege/program_run.h"

using namespace skerry;
using nlohmann::json;
using siege::ProgramRun;
using siege::TextOf;
using siege::WaitFor;

namespace {

constexpr int kRounds = 20;

// One stage, six replicas; a step takes a ring of round trips at least, so that the run is not over
// before its speaker is dead.
constexpr char kRun[] = R"(
[run]
name = "two rooms"
seed = 1
steps = 160
nodes_min = 6
node_silent_s = 8
[outer]
inner_steps = 8
overlap_steps = 2
[pipeline]
stages = 1
skip_ratio = 0.0
microbatches_per_step = 6
sequences_per_microbatch = 1
in_flight = 1
[cluster]
groups = "frankfurt; virginia"
[model]
vocab = 256
)";

constexpr char kShape[] = R"(
[[region]]
name = "frankfurt"
[[region]]
name = "virginia"
[[pair]]
a = "frankfurt"
b = "virginia"
rtt_ms = 20
rate_mbps = 1000
[same_region]
rtt_ms = 4
rate_mbps = 1000
)";

struct Program {
  std::string short_id;
  ChildProcess process;
};

// Six nodes, in each room three.
std::vector<Program> JoinBothRooms(const ProgramRun& run) {
  const std::string ticket = run.Say({"ticket", run.Dir(), "--uses", "6"});
  std::vector<Program> programs;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "node" + std::to_string(i);
    programs.push_back({"", run.Join(ticket, name, i % 2 == 0 ? "frankfurt" : "virginia")});
  }
  for (int i = 0; i < 6; ++i) {
    const auto log = run.Log("node" + std::to_string(i));
    WaitFor(log, "; joining ", programs[static_cast<size_t>(i)].process);
    const std::string said = TextOf(log);
    const std::string before = "node ";
    const size_t at = said.rfind(before, said.find("; joining "));
    programs[static_cast<size_t>(i)].short_id = said.substr(at + before.size(), 8);
  }
  return programs;
}

std::vector<json> EventsOf(const ProgramRun& run, const std::string& kind) {
  std::vector<json> events;
  std::istringstream lines(TextOf(run.at / "run" / "events.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    json event = json::parse(line, nullptr, false);
    if (!event.is_discarded() && event.value("kind", "") == kind)
      events.push_back(std::move(event));
  }
  return events;
}

std::vector<std::vector<std::string>> CohortsOf(const ProgramRun& run) {
  std::vector<std::vector<std::string>> cohorts;
  const json plan = json::parse(run.Say({"plan", run.Dir(), "--json"}));
  for (const json& cohort : plan.at("cohorts").at("cohorts")) {
    cohorts.emplace_back();
    for (const json& member : cohort.at("members"))
      cohorts.back().push_back(member.get<std::string>().substr(0, 8));
  }
  return cohorts;
}

bool Speaks(const json& round, const std::string& node) {
  const json& in = round.at("participants");
  return std::find(in.begin(), in.end(), json(node)) != in.end();
}

}  // namespace

TEST_CASE("Programs: the deputy of a cohort carries its rounds on when the speaker is killed",
          "[node][processes][cohorts]") {
  ProgramRun run(std::string(kRun) + siege::kTinyModel, kShape);
  run.Serve();
  std::vector<Program> programs = JoinBothRooms(run);
  const auto events = run.at / "run" / "events.jsonl";
  WaitFor(events, "\"kind\":\"plan\"", *run.coordinator);
  const std::vector<std::vector<std::string>> cohorts = CohortsOf(run);
  REQUIRE(cohorts.size() == 2);
  REQUIRE(cohorts[0].size() == 3);
  CHECK(run.Say({"plan", run.Dir()}).find("2 of 6 replicas speak") != std::string::npos);
  const std::string speaker = cohorts[0][0], deputy = cohorts[0][1], other = cohorts[1][0];
  const auto killed = std::find_if(programs.begin(), programs.end(), [&](const Program& program) {
    return program.short_id == speaker;
  });
  REQUIRE(killed != programs.end());

  WaitFor(events, "\"kind\":\"round\"", *run.coordinator);
  REQUIRE(kill(killed->process.pid(), SIGKILL) == 0);

  REQUIRE(run.coordinator->Wait() == "exit code 0");
  CHECK(killed->process.Wait() == "signal 9");
  for (Program& program : programs) {
    if (program.short_id != speaker) CHECK(program.process.Wait() == "exit code 0");
  }
  const std::vector<json> rounds = EventsOf(run, "round");
  REQUIRE(rounds.size() == kRounds);
  CHECK(Speaks(rounds.front(), speaker));
  CHECK(!Speaks(rounds.back(), speaker));
  for (const json& round : rounds) {
    CHECK(Speaks(round, other));
    CHECK(Speaks(round, speaker) != Speaks(round, deputy));
    CHECK(round.at("participants").size() == 2);
  }
  std::map<int64_t, std::set<std::string>> bases;  // by round
  for (const json& applied : EventsOf(run, "applied"))
    bases[applied.at("round").get<int64_t>()].insert(applied.at("digest").get<std::string>());
  CHECK(bases.size() == kRounds);
  for (const auto& [round, digests] : bases) CHECK(digests.size() == 1);
  for (const json& parted : EventsOf(run, "cohort_parted"))
    CHECK(parted.at("node").get<std::string>() == speaker);
  CHECK(run.Say({"audit", run.Dir()}).find("nothing contradicts") != std::string::npos);
}
