// What a look at the places of a running plan costs, and that saving work changes nothing of what
// is decided. Work is counted in plans made ready for the evaluator and in tasks run by it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

#include "pipeline/plan/handover.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/replan.h"
#include "pipeline/plan/replan_changes.h"
#include "pipeline/plan/rough_step.h"
#include "routing/cost_model.h"
#include "tests/pipeline/plan/random_fleet.h"

namespace skerry {
namespace {

constexpr uint32_t kStages = 3, kReplicas = 5, kStandbys = 3;

// Nodes 1 to 15 in three stages, the rest stand by; speeds by kinds, of which readings differ.
ReplanRequest Drawn(uint64_t seed) {
  ReplanRequest request;
  const std::vector<DrawnNode> nodes = DrawNodes(kStages * kReplicas + kStandbys, seed);
  request.input = InputOf(nodes);
  Rng rng(seed, "drawn plan");
  for (auto& [node, device] : request.input.devices) {
    device.name = rng.Below(3) == 0 ? "" : rng.Below(2) == 0 ? "big" : "small";
    device.gflops *= 1 + 0.1 * rng.Uniform();
  }
  RunConfig& config = request.input.config;
  config.steps = 4000;
  config.model.layers = 3;
  config.pipeline = {.stages = kStages,
                     .skip_ratio = 0,
                     .swaps = 0,
                     .microbatches_per_step = 15,
                     .sequences_per_microbatch = 1,
                     .in_flight = 3};
  PipelinePlan& plan = request.plan;
  plan.version = 7;
  plan.microbatches_per_step = 15;
  for (uint32_t stage = 0; stage < kStages; ++stage) {
    const auto layer = static_cast<int32_t>(stage);
    StageAssignment assignment{layer, layer + 1, {}};
    for (uint32_t r = 1; r <= kReplicas; ++r)
      assignment.replicas.push_back(TestNodeId(kReplicas * stage + r));
    plan.stages.push_back(assignment);
  }
  const auto draw = [&] { return static_cast<int32_t>(rng.Below(kReplicas)); };
  for (int32_t i = 0; i < 30; ++i)
    plan.paths.push_back({{0, i % static_cast<int32_t>(kReplicas)}, {1, draw()}, {2, draw()}});
  std::set<NodeId> dead;
  for (uint64_t count = rng.Below(4); count > 0; --count)
    dead.insert(TestNodeId(2 + static_cast<uint32_t>(rng.Below(kStages * kReplicas - 1))));
  plan.dead.assign(dead.begin(), dead.end());
  for (const StageAssignment& stage : plan.stages) {
    for (const NodeId& node : stage.replicas)
      if (!dead.contains(node)) request.at_work.insert(node);
  }
  for (uint32_t i = 1; i <= kStandbys * rng.Below(2); ++i)
    request.standbys.push_back(TestNodeId(kStages * kReplicas + i));
  request.steps_left = rng.Below(2) == 0 ? 30 : 1000;
  request.steps_done = 2000;
  if (rng.Below(2) == 0) request.churn = {.departures_per_s = 1.0 / 36000, .refill_s = 1800};
  return request;
}

// As RoughStep says, added up from the first to the last.
double RoughOf(const PlanModel& model) {
  const Workload& work = model.problem.workload;
  const Fleet& fleet = model.problem.fleet;
  std::vector<double> busy(work.stage_of_slot.size()), around(work.stage_of_slot.size());
  for (const Workload::Microbatch& microbatch : work.microbatches) {
    const size_t length = microbatch.slots.size();
    for (size_t hop = 0; hop < length; ++hop) {
      const auto slot = static_cast<size_t>(microbatch.slots[hop]);
      const int32_t node = model.placement[slot];
      const auto stage = static_cast<size_t>(work.stage_of_slot[slot]);
      const double flops =
          (1 + kBackwardPerForward) * work.forward_flops[stage] + (hop == 0 ? work.loss_flops : 0);
      const double task_s = ComputeSeconds(flops, fleet.gflops[static_cast<size_t>(node)]);
      double& around_s = around[static_cast<size_t>(microbatch.slots.front())];
      busy[slot] += task_s;
      around_s += task_s;
      const int32_t next =
          model.placement[static_cast<size_t>(microbatch.slots[(hop + 1) % length])];
      if (node == next) continue;
      const size_t there = fleet.Pair(node, next), back = fleet.Pair(next, node);
      around_s += fleet.latency_s[there] + fleet.wire_s[there] + fleet.latency_s[back] +
                  fleet.wire_s[back] + 2 * fleet.handling_s;
    }
  }
  double most = 0;
  for (size_t slot = 0; slot < busy.size(); ++slot)
    most = std::max({most, busy[slot], around[slot] / work.in_flight});
  return most / work.steps;
}

TEST_CASE("Replan: the rough time of a change is that of the whole plan after it, to the bit",
          "[plan]") {
  const uint64_t seed = GENERATE(range(1, 13));
  const ReplanRequest request = Drawn(seed);
  ReplanWork work;
  const std::vector<Change> changes = ChangesOf(request, work);
  REQUIRE(changes.size() > 10);
  for (const Change& change : changes) {
    const auto model =
        ModelOf(request.input, LivingOnly(WithMoves(request.plan, change.moves, {})));
    REQUIRE(model.ok());
    CAPTURE(seed, MovesText(change.moves));
    CHECK(change.rough_s == RoughOf(*model));
  }
}

TEST_CASE("Replan: the time after an exchange is that of the whole plan after it, to the bit",
          "[plan]") {
  const uint64_t seed = GENERATE(range(1, 41));
  const ReplanRequest request = Drawn(seed);
  const Replan replan = ChooseMoves(request);
  REQUIRE_FALSE(replan.moves.empty());
  CAPTURE(seed, MovesText(replan.moves));
  CHECK(replan.now_s == PredictedStepSeconds(request.input, request.plan));
  CHECK(replan.then_s ==
        PredictedStepSeconds(request.input, WithMoves(request.plan, replan.moves, {})));
}

TEST_CASE("Replan: whether figures are wanted changes nothing of what is decided", "[plan]") {
  int moved = 0, stayed = 0, cheap = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    ReplanRequest request = Drawn(seed);
    const Replan whole = ChooseMoves(request);
    request.wants_figures = false;
    const Replan brief = ChooseMoves(request);
    CAPTURE(seed, whole.why);
    CHECK(brief.migrates == whole.migrates);
    whole.migrates ? ++moved : ++stayed;
    cheap += !whole.migrates && brief.work.tasks < whole.work.tasks ? 1 : 0;
    if (!whole.migrates) continue;
    CHECK(brief.moves == whole.moves);
    CHECK(brief.then_s == whole.then_s);
    CHECK(brief.cost_s == whole.cost_s);
    CHECK(brief.why == whole.why);
  }
  CHECK(moved > 5);  // or nothing is shown
  CHECK(stayed > 5);
  CHECK(cheap > 5);
}

// Without dead slots, so that all changes are exchanges and standbys.
ReplanRequest OfTheLiving(uint64_t seed) {
  ReplanRequest request = Drawn(seed);
  for (const NodeId& node : request.plan.dead) request.at_work.insert(node);
  request.plan.dead.clear();
  request.standbys.clear();
  for (uint32_t i = 1; i <= kStandbys; ++i)
    request.standbys.push_back(TestNodeId(kStages * kReplicas + i));
  return request;
}

TEST_CASE("Replan: changes that leave slots as they are need one model for all", "[plan]") {
  const ReplanRequest request = OfTheLiving(3);
  ReplanWork work;
  const std::vector<Change> changes = ChangesOf(request, work);
  CHECK(changes.size() == 75 + 45);  // 15 · 10 / 2 exchanges, and 15 slots for 3 standbys
  CHECK(work.models == 1);

  // Predicted: one for all exchanges, one for each of the others; some have a price.
  const Replan replan = ChooseMoves(request);
  const auto standbys =
      std::count_if(changes.begin(), changes.begin() + static_cast<int64_t>(kTried),
                    [](const Change& change) { return change.moves.size() == 1; });
  CHECK(replan.work.models == 2 + standbys + static_cast<int64_t>(kCosted));
}

TEST_CASE(
    "Replan: where all are alike it is soon seen that nothing is gained, as nodes compute all the "
    "time",
    "[plan]") {
  ReplanRequest request = OfTheLiving(1);
  for (auto& [node, device] : request.input.devices) {
    device = {"", "", 1, int64_t{4} << 30};
    for (const auto& other : request.input.devices)
      if (node != other.first) request.input.links.Set(node, other.first, 0.001, 1e9);
  }
  request.input.config.pipeline.in_flight = 8;
  request.plan.microbatches_per_step = 60;
  for (int32_t i = 0; i < 30; ++i) {
    for (Slot& slot : request.plan.paths[static_cast<size_t>(i)]) slot.replica = i % 5;
  }
  const Replan whole = ChooseMoves(request);
  INFO(whole.why);
  REQUIRE_FALSE(whole.migrates);
  request.wants_figures = false;
  const Replan brief = ChooseMoves(request);
  CHECK(2 * brief.work.tasks < whole.work.tasks);
  CHECK(brief.work.models < whole.work.models);
}

}  // namespace
}  // namespace skerry
