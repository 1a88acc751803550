#include "pipeline/plan/round_shape.h"

#include <catch2/catch.hpp>
#include <map>

#include "pipeline/plan/reducer_shares.h"

namespace skerry {
namespace {

PipelinePlan PlanOf(uint32_t replicas) {
  PipelinePlan plan;
  plan.version = 1;
  plan.stages.resize(2);
  for (uint32_t i = 0; i < replicas; ++i) {
    plan.stages[0].replicas.push_back(TestNodeId(i));
    plan.stages[1].replicas.push_back(TestNodeId(100 + i));
  }
  return plan;
}

std::map<NodeId, int> Loads(const std::vector<NodeId>& reducers) {
  std::map<NodeId, int> loads;
  for (const NodeId& node : reducers) ++loads[node];
  return loads;
}

}  // namespace

TEST_CASE("RoundShape: it is of its participants only, not of the plan's version", "[plan]") {
  PipelinePlan plan = PlanOf(4);
  const RoundShape before = ShapeOf(plan, 1, 5);
  CHECK(before.participants == plan.stages[1].replicas);
  CHECK(before.id != ShapeOf(plan, 0, 5).id);
  ++plan.version;
  plan.dead = {TestNodeId(2)};  // of stage 0
  CHECK(ShapeOf(plan, 1, 5) == before);
  plan.dead = {TestNodeId(102)};
  CHECK(ShapeOf(plan, 1, 5).id != before.id);
  CHECK(ShapeOf(plan, 1, 5).participants.size() == 3);
}

TEST_CASE("RoundShape: a joiner is of the rounds from its first on", "[plan]") {
  PipelinePlan plan = PlanOf(4);
  plan.joining = {{TestNodeId(101), 2, 3, 56, 7}};
  CHECK(ShapeOf(plan, 1, 6).participants.size() == 3);
  CHECK(ShapeOf(plan, 1, 7).participants.size() == 4);
}

TEST_CASE("RoundShape: a death moves no piece but those of the dead, and spreads them", "[plan]") {
  PipelinePlan plan = PlanOf(5);
  const StageAssignment& stage = plan.stages[1];
  const auto before = ReducersOf(stage, ShapeOf(plan, 1, 0), 40);
  for (const auto& [node, load] : Loads(before)) CHECK(load == 8);
  plan.dead = {TestNodeId(103)};
  const auto after = ReducersOf(stage, ShapeOf(plan, 1, 0), 40);
  for (size_t piece = 0; piece < before.size(); ++piece) {
    CHECK((before[piece] == TestNodeId(103) || after[piece] == before[piece]));
    CHECK(after[piece] != TestNodeId(103));
  }
  for (const auto& [node, load] : Loads(after)) CHECK(load == 10);
}

TEST_CASE("RoundShape: shares are as uplinks are, and none where all are alike", "[plan]") {
  PipelinePlan plan = PlanOf(4);
  plan.stages.erase(plan.stages.begin());
  LinkMatrix links(plan.stages[0].replicas);
  const auto set = [&](uint32_t from, double bytes_per_s) {
    for (uint32_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      links.Set(TestNodeId(100 + from), TestNodeId(100 + to), 0.02, bytes_per_s);
    }
  };
  RunConfig config;
  SetShares(config, links, &plan);
  CHECK(plan.stages[0].shares.empty());  // not measured
  for (uint32_t i = 0; i < 4; ++i) set(i, 1e6);
  SetShares(config, links, &plan);
  CHECK(plan.stages[0].shares.empty());
  set(1, 2.2e6);
  set(2, 9e8);
  SetShares(config, links, &plan);
  CHECK(plan.stages[0].shares == std::vector<int32_t>{1, 2, 16, 1});
  config.outer.reduce = OuterReduce::kAll;
  SetShares(config, links, &plan);
  CHECK(plan.stages[0].shares.empty());
}

TEST_CASE("RoundShape: with cohorts auto asks how many speak in the first plan, and shares say so",
          "[plan][cohorts]") {
  PipelinePlan plan = PlanOf(8);
  plan.stages.erase(plan.stages.begin());
  StageAssignment& stage = plan.stages[0];
  LinkMatrix links(stage.replicas);
  RunConfig config;
  config.cluster.groups = "measured";
  stage.cohorts = {0, 0, 1, 1, 2, 2, 2, 2};
  plan.settings.spreads = true;
  SetShares(config, links, &plan);
  CHECK(!IsShardedStage(config, stage));
  // Then one parts, and four speak.
  stage.cohorts[1] = 3;
  CHECK(!IsShardedStage(config, stage));

  // A program of before exchanges whole deltas there.
  plan.settings.spreads = false;
  SetShares(config, links, &plan);
  CHECK(!IsShardedStage(config, stage));
  plan.settings.spreads = true;
  SetShares(config, links, &plan);
  CHECK(IsShardedStage(config, stage));
  CHECK(stage.shares == std::vector<int32_t>(8, 1));
  config.outer.reduce = OuterReduce::kAll;
  CHECK(!IsShardedStage(config, stage));
  config.outer.reduce = OuterReduce::kSharded;
  SetShares(config, links, &plan);
  CHECK(stage.shares.empty());
  CHECK(IsShardedStage(config, stage));
}

TEST_CASE("RoundShape: what a cohort has inside is no part of its share", "[plan][cohorts]") {
  PipelinePlan plan = PlanOf(4);
  plan.stages.erase(plan.stages.begin());
  StageAssignment& stage = plan.stages[0];
  stage.cohorts = {0, 0, 0, 1};
  LinkMatrix links(stage.replicas);
  for (size_t from = 0; from < 4; ++from) {
    for (size_t to = 0; to < 4; ++to) {
      const bool is_near = stage.cohorts[from] == stage.cohorts[to];
      const double rate = is_near ? 1e9 : from == 3 ? 4e6 : 1e6;
      if (from != to) links.Set(stage.replicas[from], stage.replicas[to], 0.02, rate);
    }
  }
  RunConfig config;
  config.cluster.groups = "measured";
  config.outer.reduce = OuterReduce::kSharded;
  SetShares(config, links, &plan);
  CHECK(stage.shares == std::vector<int32_t>{1, 1, 1, 4});
}

TEST_CASE("RoundShape: one member's lucky readings are not its cohort's share", "[plan][cohorts]") {
  PipelinePlan plan = PlanOf(6);
  plan.stages.erase(plan.stages.begin());
  StageAssignment& stage = plan.stages[0];
  stage.cohorts = {0, 0, 0, 1, 1, 1};
  LinkMatrix links(stage.replicas);
  const auto set = [&](size_t from, double rate) {
    for (size_t to = 0; to < 6; ++to)
      if (from != to) links.Set(stage.replicas[from], stage.replicas[to], 0.02, rate);
  };
  for (size_t from = 0; from < 6; ++from) set(from, 1e6);
  set(0, 1.9e6);
  RunConfig config;
  config.cluster.groups = "measured";
  config.outer.reduce = OuterReduce::kSharded;
  SetShares(config, links, &plan);
  CHECK(stage.shares.empty());
  set(1, 1.9e6);
  SetShares(config, links, &plan);
  CHECK(stage.shares == std::vector<int32_t>{2, 2, 2, 1, 1, 1});
}

// Of four cohorts of two: whoever speaks has as much to sum as the others.
TEST_CASE("RoundShape: parts of who does not speak are spread over who does, also after a death",
          "[plan][cohorts]") {
  PipelinePlan plan = PlanOf(8);
  plan.stages[1].cohorts = {0, 0, 1, 1, 2, 2, 3, 3};
  const auto before = ReducersOf(plan.stages[1], ShapeOf(plan, 1, 0), 64);
  CHECK(Loads(before).size() == 4);
  for (const auto& [node, load] : Loads(before)) CHECK(load == 16);
  plan.dead = {TestNodeId(102)};
  const auto after = ReducersOf(plan.stages[1], ShapeOf(plan, 1, 0), 64);
  CHECK(Loads(after).contains(TestNodeId(103)));
  for (const auto& [node, load] : Loads(after)) CHECK(load == 16);
  int32_t moved = 0;
  for (size_t piece = 0; piece < before.size(); ++piece) {
    moved += before[piece] != TestNodeId(102) && before[piece] != after[piece] ? 1 : 0;
  }
  CHECK(moved <= 8);  // those of the deputy's slot come home
}

TEST_CASE("RoundShape: parts are as the shares say, with few pieces too", "[plan]") {
  PipelinePlan plan = PlanOf(4);
  plan.stages[1].shares = {1, 2, 4, 1};
  const auto loads = Loads(ReducersOf(plan.stages[1], ShapeOf(plan, 1, 0), 32));
  CHECK(loads.at(TestNodeId(100)) == 4);
  CHECK(loads.at(TestNodeId(101)) == 8);
  CHECK(loads.at(TestNodeId(102)) == 16);
  CHECK(loads.at(TestNodeId(103)) == 4);
  CHECK(ReducersOf(plan.stages[1], ShapeOf(plan, 1, 0), 1).size() == 1);
  plan.dead = {TestNodeId(100), TestNodeId(101), TestNodeId(103)};
  const auto alone = ReducersOf(plan.stages[1], ShapeOf(plan, 1, 0), 32);
  CHECK(Loads(alone).at(TestNodeId(102)) == 32);
}

TEST_CASE("RoundTokensMax: some times the round's tokens, and never too many to add", "[plan]") {
  RunConfig config;
  config.outer.inner_steps = 16;
  config.pipeline.sequences_per_microbatch = 2;
  config.model.context = 64;
  PipelinePlan plan = PlanOf(2);
  plan.microbatches_per_step = 8;
  CHECK(RoundTokensMax(config, plan) == 4 * 16 * 8 * 2 * 64);
  config.outer.inner_steps = int64_t{1} << 60;
  CHECK(RoundTokensMax(config, plan) == int64_t{1} << 48);
}

}  // namespace skerry
