// Whether nodes that work should change places, with figures worked out by hand where they can be.

#include "pipeline/plan/replan.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "pipeline/plan/handover.h"
#include "pipeline/plan/replan_changes.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/validate.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

RunConfig Config() {
  RunConfig config;
  config.steps = 4000;
  config.model.layers = 3;
  config.outer.inner_steps = 4;
  config.outer.overlap_steps = 1;
  config.pipeline = {.stages = 3,
                     .skip_ratio = 0,
                     .swaps = 0,
                     .microbatches_per_step = 12,
                     .sequences_per_microbatch = 1,
                     .in_flight = 4};
  return config;
}

// Three stages of three: nodes 1 to 3, 4 to 6, 7 to 9.
PipelinePlan Plan() {
  PipelinePlan plan;
  plan.version = 5;
  plan.microbatches_per_step = 12;
  for (uint32_t stage = 0; stage < 3; ++stage) {
    const auto layer = static_cast<int32_t>(stage);
    StageAssignment assignment{layer, layer + 1, {}};
    for (uint32_t r = 1; r <= 3; ++r) assignment.replicas.push_back(TestNodeId(3 * stage + r));
    plan.stages.push_back(assignment);
  }
  for (int32_t r = 0; r < 3; ++r) plan.paths.push_back({{0, r}, {1, r}, {2, r}});
  return plan;
}

ReplanRequest Request(PipelinePlan plan, const std::vector<NodeId>& standbys = {}) {
  ReplanRequest request;
  request.input.config = Config();
  std::set<NodeId> nodes(standbys.begin(), standbys.end());
  for (const StageAssignment& stage : plan.stages) {
    nodes.insert(stage.replicas.begin(), stage.replicas.end());
    for (const NodeId& node : stage.replicas) {
      if (!IsDead(plan, node)) request.at_work.insert(node);
    }
  }
  request.input.nodes.assign(nodes.begin(), nodes.end());
  request.input.links = LinkMatrix(request.input.nodes);
  for (const NodeId& from : nodes) {
    request.input.devices[from] = {"cpu", "cpu", 10.0, int64_t{1} << 34};
    for (const NodeId& to : nodes) {
      if (from != to) request.input.links.Set(from, to, 0.001, 1e8);
    }
  }
  request.plan = std::move(plan);
  request.standbys = standbys;
  request.steps_left = 1000;
  return request;
}

PipelinePlan WithDead(std::vector<NodeId> dead) {
  PipelinePlan plan = Plan();
  plan.dead = std::move(dead);
  return plan;
}

}  // namespace

TEST_CASE("Replan: who loses two of three replicas is given one of a full stage", "[plan]") {
  const ReplanRequest request = Request(WithDead({TestNodeId(5), TestNodeId(6)}));
  const Replan replan = ChooseMoves(request);

  INFO(replan.why);
  CHECK(replan.migrates);
  REQUIRE(replan.moves.size() == 1);
  CHECK(replan.moves[0].to.stage == 1);
  CHECK(replan.moves[0].from_stage == 2);  // stage 0 has the head to do besides
  // One node did the work of three; then two do.
  CHECK(replan.then_s < 0.75 * replan.now_s);
  CHECK(replan.gain_s == Approx(replan.now_s - replan.then_s));
  CHECK(replan.steps_counted == 1000);
  CHECK(static_cast<double>(replan.pays_back_steps) == std::ceil(replan.cost_s / replan.gain_s));
}

TEST_CASE("Replan: the cost is the state over the donor's line, the steps without, and those lost",
          "[plan]") {
  ReplanRequest request = Request(WithDead({TestNodeId(5), TestNodeId(6)}));
  const NodeId donor = TestNodeId(4);
  for (const uint32_t mover : {7u, 8u, 9u}) {
    request.input.links.Set(donor, TestNodeId(mover), 0.2, 1e3);
  }
  for (const uint32_t other : {1u, 2u, 3u}) request.at_work.erase(TestNodeId(other));
  const Replan replan = ChooseMoves(request);

  REQUIRE(replan.moves.size() == 1);
  const double bytes = double{kStateBytesPerParameter} *
                       static_cast<double>(StageParameters(Config().model, 1, false));
  const double state_s = 0.1 + bytes / 1e3;
  const double missing_s = state_s + 2 * 4 * replan.meanwhile_s;
  const double thrown_s = 2 * replan.now_s / 3;  // δ + 1 steps of one of three
  const double slower = std::max(0.0, 1 - replan.now_s / replan.meanwhile_s);
  CHECK(replan.cost_s == Approx(state_s + missing_s * slower + thrown_s));
}

TEST_CASE("Replan: a change is made if the steps left pay its cost twice, and not one step earlier",
          "[plan]") {
  ReplanRequest request = Request(WithDead({TestNodeId(5), TestNodeId(6)}));
  const Replan whole = ChooseMoves(request);
  REQUIRE(whole.migrates);
  const auto enough = static_cast<int64_t>(std::ceil(kPayBack * whole.cost_s / whole.gain_s));

  request.steps_left = enough;
  CHECK(ChooseMoves(request).migrates);
  request.steps_left = enough - 1;
  const Replan stays = ChooseMoves(request);

  CHECK_FALSE(stays.migrates);
  CHECK(stays.moves == whole.moves);  // told all the same
  CHECK(stays.cost_s == whole.cost_s);
  CHECK(stays.why.find("only after") != std::string::npos);
}

TEST_CASE("Replan: no more steps count than the horizon has", "[plan]") {
  ReplanRequest request = Request(WithDead({TestNodeId(5), TestNodeId(6)}));
  request.steps_left = 1'000'000'000;
  const Replan replan = ChooseMoves(request);
  CHECK(static_cast<double>(replan.steps_counted) * replan.now_s ==
        Approx(kHorizonS).epsilon(0.001));
}

TEST_CASE("Replan: a fleet in which all is well stays as it is", "[plan]") {
  const Replan replan = ChooseMoves(Request(Plan()));
  CHECK_FALSE(replan.migrates);
  CHECK(replan.then_s == replan.now_s);
  CHECK(replan.why.find("less than the 10 %") != std::string::npos);
}

TEST_CASE("Replan: a fast and a slow node exchange their slots", "[plan]") {
  ReplanRequest request = Request(Plan());
  // Stage 2 holds three layers' work; who is slow there holds everybody up.
  request.plan.stages = {{0, 1, request.plan.stages[0].replicas},
                         {1, 2, request.plan.stages[1].replicas},
                         {2, 8, request.plan.stages[2].replicas}};
  request.input.config.model.layers = 8;
  request.input.devices[TestNodeId(7)] = {"slow", "slow", 3.0, int64_t{1} << 34};
  const Replan replan = ChooseMoves(request);

  INFO(replan.why);
  CHECK(replan.migrates);
  REQUIRE(replan.moves.size() == 2);
  const PipelinePlan after = WithMoves(request.plan, replan.moves, {{0, 2}, {1, 3}, {2, 4}});
  CHECK(SlotOf(after, TestNodeId(7))->stage != 2);
  CHECK(after.dead.empty());
  CHECK(after.joining.size() == 2);
  for (const Joiner& joiner : after.joining) {
    CHECK(joiner.since == 6);
    CHECK(joiner.base_version == 2 + SlotOf(after, joiner.node)->stage);
  }
  RunConfig config = request.input.config;
  CHECK(ValidatePlan(after, config).ok());
}

TEST_CASE("Replan: a standby takes the place of who has become slow", "[plan]") {
  ReplanRequest request = Request(Plan(), {TestNodeId(10)});
  request.input.devices[TestNodeId(5)] = {"slow", "slow", 2.0, int64_t{1} << 34};
  const Replan replan = ChooseMoves(request);

  CHECK(replan.migrates);
  CHECK(replan.moves == std::vector<Move>{{TestNodeId(10), -1, {1, 1}}});
  const PipelinePlan after = WithMoves(request.plan, replan.moves, {{1, 7}});
  CHECK_FALSE(SlotOf(after, TestNodeId(5)));
  CHECK(after.joining == std::vector<Joiner>{{TestNodeId(10), 6, 7, -1, -1}});
}

TEST_CASE("Replan: a dead slot that a standby can fill is left to it", "[plan]") {
  ReplanRequest request =
      Request(WithDead({TestNodeId(5), TestNodeId(6)}), {TestNodeId(10), TestNodeId(11)});
  for (const Move& move : ChooseMoves(request).moves) {
    CHECK_FALSE(IsDead(request.plan, NodeOf(request.plan, move.to)));
  }
  request.input.devices[TestNodeId(10)].memory_bytes = 1000;
  request.input.devices[TestNodeId(11)].memory_bytes = 1000;
  CHECK(IsDead(request.plan, NodeOf(request.plan, ChooseMoves(request).moves.at(0).to)));
}

TEST_CASE("Replan: nobody leaves a stage alone, and of stage 0 two stay", "[plan]") {
  PipelinePlan plan = WithDead({TestNodeId(2), TestNodeId(5), TestNodeId(6), TestNodeId(8)});
  ReplanRequest request = Request(plan);  // two, one, two live
  const Replan two = ChooseMoves(request);
  REQUIRE(two.moves.size() == 1);
  CHECK(two.moves[0].from_stage == 2);

  plan.dead.push_back(TestNodeId(9));  // two, one, one
  request = Request(plan);
  CHECK(ChooseMoves(request).moves.empty());
}

TEST_CASE("Replan: who rests, joins, or is not at work does not move", "[plan]") {
  ReplanRequest request = Request(WithDead({TestNodeId(5), TestNodeId(6)}));
  const bool target = GENERATE(true, false);
  SECTION("resting") {
    request.resting = target ? std::set<int32_t>{1} : std::set<int32_t>{0, 2};
    CHECK_FALSE(ChooseMoves(request).migrates);
  }
  SECTION("joined by somebody") {
    request.plan = target ? WithJoiner(request.plan, {1, 1}, TestNodeId(5), 0) : request.plan;
    if (!target) request.resting = {0, 2};
    CHECK_FALSE(ChooseMoves(request).migrates);
  }
  SECTION("no donor, or nobody who could go") {
    std::erase_if(request.at_work, [&](const NodeId& node) {
      return target ? SlotOf(request.plan, node)->stage == 1 : node != TestNodeId(4);
    });
    for (const Move& move : ChooseMoves(request).moves) {
      CHECK(move.from_stage != 1);
      CHECK(move.to.stage != 1);
    }
  }
}

TEST_CASE("Replan: without links there is nothing to predict, and all stay", "[plan]") {
  ReplanRequest request = Request(Plan());
  request.input.links = LinkMatrix(request.input.nodes);
  const Replan replan = ChooseMoves(request);
  CHECK_FALSE(replan.migrates);
  CHECK(replan.why.find("not known") != std::string::npos);
}

TEST_CASE("Replan: dead nodes with bad lines make no step longer", "[plan]") {
  ReplanRequest request = Request(WithDead({TestNodeId(6)}));
  const double step_s = PredictedStepSeconds(request.input, request.plan);
  for (const NodeId& node : request.input.nodes) {
    if (node == TestNodeId(6)) continue;
    request.input.links.Set(TestNodeId(6), node, 5, 10);
    request.input.links.Set(node, TestNodeId(6), 5, 10);
  }
  CHECK(PredictedStepSeconds(request.input, request.plan) == step_s);
}

TEST_CASE("Moves: to a dead slot, and the dead node is left with the old one", "[plan]") {
  const PipelinePlan before = WithDead({TestNodeId(5), TestNodeId(6)});
  const PipelinePlan after = WithMoves(before, {{TestNodeId(9), 2, {1, 1}}}, {{1, 8}});

  CHECK(after.version == 6);
  CHECK(NodeOf(after, {1, 1}) == TestNodeId(9));
  CHECK(NodeOf(after, {2, 2}) == TestNodeId(5));
  CHECK(after.dead == before.dead);
  CHECK(after.joining == std::vector<Joiner>{{TestNodeId(9), 6, 8, -1, -1}});
  CHECK(ValidatePlan(after, Config()).ok());
  // For microbatches both slots are empty until it begins.
  CHECK(PathOf(after, 100, 2) == Path{{0, 2}, {1, 0}, {2, 0}});
}

TEST_CASE("Moves: a standby with a dead slot of its own exchanges it", "[plan]") {
  const PipelinePlan before = WithDead({TestNodeId(5)});
  const PipelinePlan after = WithMoves(before, {{TestNodeId(5), -1, {2, 0}}}, {{2, 3}});
  CHECK(NodeOf(after, {2, 0}) == TestNodeId(5));
  CHECK(NodeOf(after, {1, 1}) == TestNodeId(7));
  CHECK(after.dead == std::vector{TestNodeId(7)});
  CHECK(ValidatePlan(after, Config()).ok());
}

TEST_CASE("Moves: what somebody was as a joiner once is over when it moves", "[plan]") {
  PipelinePlan before =
      WithJoiner(WithDead({TestNodeId(5), TestNodeId(6)}), {1, 1}, TestNodeId(5), 2);
  before = WithFirstStep(before, TestNodeId(5), Config(), 4);
  const PipelinePlan after =
      WithMoves(before, {{TestNodeId(5), 1, {2, 2}}, {TestNodeId(9), 2, {1, 1}}}, {{1, 6}, {2, 6}});
  REQUIRE(after.joining.size() == 2);
  CHECK(after.joining[0] == Joiner{TestNodeId(5), after.version, 6, -1, -1});
  CHECK(after.joining[1] == Joiner{TestNodeId(9), after.version, 6, -1, -1});
  CHECK(ValidatePlan(after, Config()).ok());
}

TEST_CASE("Replan: no move leaves a stage with less than an even share", "[plan]") {
  // Four, three and two of four each live: three are an even share, so only stage 0 gives.
  PipelinePlan plan = Plan();
  for (uint32_t stage = 0; stage < 3; ++stage) {
    plan.stages[stage].replicas.push_back(TestNodeId(10 + stage));
  }
  plan.dead = {TestNodeId(8), TestNodeId(9), TestNodeId(11)};
  int givers = 0;
  ReplanWork work;
  for (const Change& change : ChangesOf(Request(plan), work)) {
    if (change.moves.size() != 1) continue;
    ++givers;
    CHECK(change.moves[0].from_stage == 0);
  }
  CHECK(givers >= 4);
}

TEST_CASE("Replan: a thin stage is given a replica for safety where nodes leave", "[plan]") {
  // Stage 1 computes next to nothing, so nothing is gained in speed.
  ReplanRequest request = Request(WithDead({TestNodeId(5), TestNodeId(6)}));
  for (const uint32_t fast : {4u}) request.input.devices[TestNodeId(fast)].gflops = 1000;
  for (const uint32_t fast : {4u}) request.input.devices[TestNodeId(fast)].name = "fast";
  const Replan calm = ChooseMoves(request);
  INFO(calm.why);
  CHECK_FALSE(calm.migrates);
  CHECK(calm.risk_now_s == 0);

  request.churn = {.departures_per_s = 1.0 / 3600, .refill_s = 1800};
  request.steps_done = 100000;
  const Replan replan = ChooseMoves(request);
  INFO(replan.why);
  CHECK(replan.migrates);
  REQUIRE(replan.moves.size() == 1);
  CHECK(replan.moves[0].to.stage == 1);
  CHECK(replan.moves[0].from_stage == 2);
  CHECK(replan.risk_then_s < 0.9 * replan.risk_now_s);
  CHECK(replan.why.find("safer") != std::string::npos);
}

}  // namespace skerry
