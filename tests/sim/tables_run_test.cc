// Whole runs in which each tensor has a codec of its own, with real arithmetic in virtual time:
// tables are chosen, committed, used by everybody in the same round, and outlive whom they should.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "compression/codec_table.h"
#include "sim/swarm.h"
#include "sim/virtual_run.h"
#include "tests/sim/sharded_fleet.h"

using namespace skerry;
using skerry::testing::EightNodes;
using skerry::testing::EndOf;

namespace {

// Two stages of four, 12 rounds, a table every third.
VirtualRunOptions WithBudget(CodecBudget budget, OuterReduce reduce) {
  VirtualRunOptions options = EightNodes();
  options.math = VirtualMath::kTiny;
  options.config.steps = 24;
  options.config.outer.codec = DeltaCodec::kInt4;
  options.config.outer.reduce = reduce;
  options.config.outer.budget = budget;
  options.config.outer.budget_bits = 3;
  options.config.outer.budget_rounds = 3;
  return options;
}

// What was really encoded, by round.
class WatchedRun {
 public:
  explicit WatchedRun(VirtualRunOptions options) : run(std::move(options)) {
    run.WatchMessages([this](Instant at, const Message& message) { Saw(at, message); });
  }
  VirtualRun* operator->() { return &run; }

  int64_t DeltaBytes(int64_t from_round) const {
    int64_t bytes = 0;
    for (const auto& [round, size] : delta_bytes) bytes += round >= from_round ? size : 0;
    return bytes;
  }

  VirtualRun run;
  std::map<int64_t, int64_t> delta_bytes;
  std::vector<Instant> statistics;  // when they came

 private:
  void Saw(Instant at, const Message& message) {
    if (const auto* delta = std::get_if<Delta>(&message)) {
      delta_bytes[delta->round] += static_cast<int64_t>(View(delta->payload).size());
    }
    if (std::holds_alternative<DeltaStatistics>(message)) statistics.push_back(at);
  }
};

std::vector<nlohmann::json> EventsOf(const VirtualRun& run, const std::string& kind) {
  std::vector<nlohmann::json> found;
  for (const VirtualEvent& event : run.events()) {
    if (event.kind == kind) found.push_back(nlohmann::json::parse("{" + event.fields + "}"));
  }
  return found;
}

// Every third commit names a table, and all who landed a round hold the same bits.
void CheckTables(const RunState& state) {
  for (const auto& [key, commit] : state.commits) {
    INFO("stage " << key.first << " round " << key.second);
    CHECK(commit.table.empty() == (key.second % 3 != 0));
    std::set<Digest> digests;
    const auto applied = state.applied.find(key);
    if (applied == state.applied.end()) continue;
    for (const auto& [node, report] : applied->second) digests.insert(report.base_digest);
    CHECK(digests.size() == 1);
  }
}

std::map<RunState::StageRound, Bytes> TablesOf(const RunState& state) {
  std::map<RunState::StageRound, Bytes> tables;
  for (const auto& [key, commit] : state.commits) {
    if (!commit.table.empty()) tables[key] = commit.table;
  }
  return tables;
}

}  // namespace

TEST_CASE("Tables: within a budget of bits all replicas agree, in rounds of either kind",
          "[sim][tables]") {
  const OuterReduce reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  WatchedRun watched(WithBudget(CodecBudget::kBits, reduce));
  const VirtualOutcome outcome = watched->Run();
  CHECK(EndOf(watched.run, outcome) == "");
  CHECK(outcome.rounds == 12);
  const RunState& state = watched->checkers().state();
  CheckTables(state);
  const auto told = EventsOf(watched.run, "table");
  CHECK(told.size() == 2 * 4);
  for (const nlohmann::json& table : told) {
    CHECK(table["bits"].get<double>() <= 3);
    CHECK_FALSE(table["over_budget"].get<bool>());
    CHECK(table["from_round"].get<int64_t>() == table["round"].get<int64_t>() + 1);
  }
  // What was sent is what was budgeted: 3 bits instead of 4, in every round but the first.
  const double before = static_cast<double>(watched.delta_bytes.at(0));
  for (const auto& [round, bytes] : watched.delta_bytes) {
    if (round > 0) CHECK(static_cast<double>(bytes) < 0.85 * before);
  }
}

TEST_CASE("Tables: the error of one codec for all in fewer bytes", "[sim][tables]") {
  const auto bytes = [](CodecBudget budget) {
    VirtualRunOptions options = WithBudget(budget, OuterReduce::kAll);
    // Its deltas are as unequal as gradients are; AdamW's are not.
    options.config.inner.optimizer = InnerOptimizer::kSgd;
    WatchedRun watched(std::move(options));
    CHECK(EndOf(watched.run, watched->Run()) == "");
    for (const nlohmann::json& table : EventsOf(watched.run, "table")) {
      CHECK(table["error_ratio"].get<double>() <= 1);
    }
    return static_cast<double>(watched.DeltaBytes(1));
  };
  const double ratio = bytes(CodecBudget::kError) / bytes(CodecBudget::kNone);
  INFO("bytes of int4's error, relative to int4: " << ratio);
  CHECK(ratio < 0.95);
}

TEST_CASE("Tables: they change in a run, and a run says the same twice", "[sim][tables]") {
  const auto tables = [] {
    VirtualRun run(WithBudget(CodecBudget::kBits, OuterReduce::kSharded));
    run.Run();
    return TablesOf(run.checkers().state());
  };
  const auto once = tables();
  std::set<Bytes> different;
  for (const auto& [key, table] : once) different.insert(table);
  CHECK(different.size() > 2);
  CHECK(once == tables());
}

TEST_CASE("Tables: a coordinator that dies between statistics and commit makes the same table",
          "[sim][tables]") {
  const OuterReduce reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  WatchedRun whole(WithBudget(CodecBudget::kBits, reduce));
  whole->Run();
  const auto expected = TablesOf(whole->checkers().state());
  REQUIRE(whole.statistics.size() == 4 * 8);
  for (const size_t moment : {size_t{0}, size_t{7}, size_t{13}}) {
    VirtualRun run(WithBudget(CodecBudget::kBits, reduce));
    const Instant at = whole.statistics[moment] + Duration::Millis(1);
    run.simulation().CrashAt(at, VirtualRun::coordinator());
    run.simulation().StartAt(at + Duration::Seconds(3), VirtualRun::coordinator());
    const VirtualOutcome outcome = run.Run();
    INFO("after statistics " << moment);
    CHECK(EndOf(run, outcome) == "");
    CheckTables(run.checkers().state());
    CHECK(TablesOf(run.checkers().state()) == expected);
  }
}

TEST_CASE("Tables: a coordinator that dies when the commit is journalled knows its table again",
          "[sim][tables]") {
  VirtualRun whole(WithBudget(CodecBudget::kBits, OuterReduce::kAll));
  whole.Run();
  const auto& journal = whole.simulation().journal(VirtualRun::coordinator());
  int crashes = 0;
  for (size_t i = 0; i < journal.size() && crashes < 3; ++i) {
    const auto record = nlohmann::json::parse(journal[i]);
    if (record["kind"] != "commit" || record["commit"]["table"].empty()) continue;
    ++crashes;
    for (const int64_t number : {static_cast<int64_t>(i), static_cast<int64_t>(i) + 1}) {
      VirtualRunOptions options = WithBudget(CodecBudget::kBits, OuterReduce::kAll);
      options.coordinator_crashes[number] = Duration::Seconds(2);
      VirtualRun run(std::move(options));
      const VirtualOutcome outcome = run.Run();
      INFO("record " << number);
      CHECK(EndOf(run, outcome) == "");
      CheckTables(run.checkers().state());
    }
  }
  CHECK(crashes == 3);
}

TEST_CASE("Tables: who comes in a dead replica's place has the tables in force", "[sim][tables]") {
  const OuterReduce reduce = GENERATE(OuterReduce::kAll, OuterReduce::kSharded);
  const int32_t victim = GENERATE(1, 6);
  VirtualRunOptions options = WithBudget(CodecBudget::kBits, reduce);
  options.config.steps = 160;
  options.config.node_silent_s = 3;
  options.nodes.push_back(options.nodes.back());  // a standby
  options.nodes.back().joins = Instant() + Duration::Seconds(30);
  VirtualRun run(std::move(options));
  run.simulation().CrashAt(Instant() + Duration::Seconds(25), VirtualRun::node(victim));
  const VirtualOutcome outcome = run.Run();
  CHECK(EndOf(run, outcome) == "");
  const RunState& state = run.checkers().state();
  CheckTables(state);
  CHECK(EventsOf(run, "restored").size() == 1);
  CHECK(EventsOf(run, "statistics_refused").empty());
  // It was in rounds of its own, with tables.
  const RunState::StageRound last = std::prev(state.applied.end())->first;
  size_t replicas = 0;
  for (int32_t stage = 0; stage < 2; ++stage) {
    replicas += state.applied.at({stage, last.second}).size();
  }
  CHECK(replicas == 8);
}

TEST_CASE("Tables: whatever befalls a run with a budget, its rules hold", "[sim][tables]") {
  for (const uint64_t seed : {3, 17}) {
    const SwarmTry tried = TrySwarmSeed({seed, 10});
    CHECK((tried.finding ? tried.finding->wrong : "") == "");
  }
}
