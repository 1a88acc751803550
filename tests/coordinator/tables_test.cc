// Codec tables: who measured what, and which table a commit names.

#include <limits>

#include "compression/codec.h"
#include "localsgd/table_choice.h"
#include "tests/coordinator/served_run.h"

using namespace skerry;
using skerry::testing::Held;
using skerry::testing::Node;
using skerry::testing::ServedRun;
using skerry::testing::SmallRun;

namespace {

RunConfig WithBudget() {
  RunConfig config = SmallRun();
  config.steps = 16;
  config.outer.codec = DeltaCodec::kInt8;
  config.outer.budget = CodecBudget::kBits;
  config.outer.budget_bits = 5;
  config.outer.budget_rounds = 2;
  return config;
}

std::vector<int64_t> PartsOf(const ServedRun& run, int32_t stage) {
  const StageAssignment& of = run.state().plan->stages[static_cast<size_t>(stage)];
  return TableParts(
      ParameterLayout::ForStage(run.config.model, of.first_layer, of.last_layer, stage == 0));
}

// `loud`: the tensor whose errors are a thousand times the others'.
DeltaStatistics Said(const ServedRun& run, int32_t stage, int64_t round, size_t loud) {
  PartStatistics statistics;
  for (const int64_t part : PartsOf(run, stage)) {
    const double loudness = statistics.size() == loud ? 1000 : 1;
    auto& choices = statistics.emplace_back();
    for (const DeltaCodec codec : TableCodecs(run.config)) {
      const Codec& of = CodecFor(codec);
      choices.push_back({of.EncodedSizeMax(part), loudness / DeltaBitsPerValue(codec)});
    }
  }
  DeltaStatistics said = SaidOf(statistics);
  said.stage = stage;
  said.round = round;
  return said;
}

void HoldAll(ServedRun& run, int32_t stage, int64_t round) {
  for (const NodeId& holder : run.Live(stage)) {
    for (const NodeId& sender : run.Live(stage)) run.From(holder, Held(stage, round, sender));
  }
}

}  // namespace

TEST_CASE("Tables: a commit names the table made of what its participants said",
          "[coordinator][tables]") {
  ServedRun run(WithBudget());
  run.Gather();
  for (const NodeId& node : run.Live(1)) run.From(node, Said(run, 1, 0, 2));
  HoldAll(run, 1, 0);

  const RoundCommit& commit = run.state().commits.at({1, 0});
  const auto table = UnpackTable(commit.table);
  REQUIRE(table.ok());
  std::vector<int64_t> parts;
  for (const TablePart& part : *table) parts.push_back(part.values);
  CHECK(parts == PartsOf(run, 1));
  CHECK((*table)[2].codec == DeltaCodec::kInt8);
  CHECK(run.LastEvent("table")["bits"].get<double>() <= 5);
  CHECK(run.Fold() == run.state());
  // The next round is not one of those.
  HoldAll(run, 1, 1);
  CHECK(run.state().commits.at({1, 1}).table.empty());
}

TEST_CASE("Tables: statistics that cannot be are refused, and said why", "[coordinator][tables]") {
  ServedRun run(WithBudget());
  run.Gather();
  DeltaStatistics said = Said(run, 0, 0, 0);
  std::string why;
  SECTION("too few") {
    said.bytes.pop_back();
    said.errors.pop_back();
    why = "want";
  }
  SECTION("no number") {
    said.errors[1] = std::numeric_limits<double>::quiet_NaN();
    why = "an error of nan";
  }
  SECTION("negative") {
    said.errors[1] = -1;
    why = "an error of -1";
  }
  SECTION("more than any delta can lose") {
    said.errors[1] = 1e300;
    why = "an error of 1e+300";
  }
  SECTION("bytes that no message has") {
    said.bytes[0] = -5;
    why = "tensor 0 in -5 bytes";
  }
  const auto live = run.Live(0);
  const int64_t refused = run.actor->refused();
  run.From(live[0], said);
  run.From(live[0], Said(run, 0, 0, 0));  // its first word counts
  run.From(live[1], Said(run, 0, 0, 1));
  HoldAll(run, 0, 0);

  CHECK(run.CountEvents("statistics_refused") == 1);
  CHECK(run.LastEvent("statistics_refused")["node"] == live[0].Short());
  CHECK_THAT(run.LastEvent("statistics_refused")["why"].get<std::string>(),
             Catch::Matchers::Contains(why));
  CHECK(run.actor->refused() == refused + 1);
  // The other's alone make the table.
  const auto table = UnpackTable(run.state().commits.at({0, 0}).table);
  REQUIRE(table.ok());
  CHECK((*table)[1].codec == DeltaCodec::kInt8);
}

TEST_CASE("Tables: with nobody's statistics the round is committed without one",
          "[coordinator][tables]") {
  ServedRun run(WithBudget());
  run.Gather();
  HoldAll(run, 0, 0);
  CHECK(run.state().commits.at({0, 0}).table.empty());
  CHECK(run.CountEvents("table") == 0);
}

TEST_CASE("Tables: a budget below what any table takes gives the one of fewest bytes",
          "[coordinator][tables]") {
  RunConfig config = WithBudget();
  config.outer.budget_bits = 0.1f;
  ServedRun run(config);
  run.Gather();
  for (const NodeId& node : run.Live(0)) run.From(node, Said(run, 0, 0, 0));
  HoldAll(run, 0, 0);
  CHECK(run.LastEvent("table")["over_budget"] == true);
  const auto table = UnpackTable(run.state().commits.at({0, 0}).table);
  REQUIRE(table.ok());
  for (const TablePart& part : *table) {
    const int64_t bytes = CodecFor(part.codec).EncodedSizeMax(part.values);
    for (const DeltaCodec other : TableCodecs(config)) {
      CHECK(bytes <= CodecFor(other).EncodedSizeMax(part.values));
    }
  }
}

TEST_CASE("Tables: statistics of strangers, other stages and other rounds change nothing",
          "[coordinator][tables]") {
  ServedRun run(WithBudget());
  run.Gather();
  const NodeId node = run.Live(0)[0];
  const int64_t refused = run.actor->refused();
  DeltaStatistics said = Said(run, 0, 0, 0);
  said.round = 1;
  run.From(node, said);  // nobody was asked for that one
  said.round = 600;
  run.From(node, said);
  said.round = 0;
  said.stage = 1;
  run.From(node, said);
  CHECK(run.actor->refused() == refused + 3);
  HoldAll(run, 0, 0);
  CHECK(run.state().commits.at({0, 0}).table.empty());
}
