#include "routing/strategy.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "routing/critical_path.h"
#include "routing/dtfm.h"
#include "routing/skippipe_search.h"
#include "sim/dtfm_environments.h"
#include "tests/routing/fleets.h"

namespace skerry {
namespace {

TEST_CASE("DT-FM's cost of its own environments is reached in a fraction of its time",
          "[routing][strategy]") {
  for (const DtfmEnvironment& environment : DtfmEnvironments()) {
    INFO(environment.name);
    const auto plan = SearchDtfm(DtfmProblemOf(environment), {1, 40000, {}});
    REQUIRE(plan.ok());
    CHECK(plan->cost_s() <= environment.reached_s * (1 + 1e-9));
    std::set<int32_t> nodes;
    for (const auto& group : plan->groups) nodes.insert(group.begin(), group.end());
    CHECK(nodes.size() == 64);
  }
}

TEST_CASE("DT-FM's cost, worked by hand", "[routing][strategy]") {
  // Four nodes on a line, 1 s apart each; groups of two.
  DtfmProblem problem;
  problem.group_sizes = {2, 2};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      problem.exchange_s.push_back(std::abs(i - j));
      problem.activation_s.push_back(10.0 * std::abs(i - j));
    }
  }
  // {0, 2}, {1, 3}: an exchange takes 2 s, neighbours pass on in 10 s.
  const auto spread = EvaluateDtfm(problem, {{0, 2}, {3, 1}});
  REQUIRE(spread.ok());
  CHECK(spread->data_parallel_s == 2);
  CHECK(spread->pipeline_s == 10);
  CHECK(spread->groups[0].size() == 2);
  const bool kept = spread->groups[0] == std::vector<int32_t>{0, 2};
  CHECK(spread->groups[1] == (kept ? std::vector<int32_t>{1, 3} : std::vector<int32_t>{2, 0}));

  CHECK(SearchDtfm(problem, {1, 200, {}})->cost_s() == 22);
  CHECK_FALSE(EvaluateDtfm(problem, {{0, 1}, {1, 3}}).ok());
}

Workload Shape(int32_t steps) {
  Workload shape;
  shape.stage_of_slot = {0, 0, 1, 1, 2, 2};
  shape.forward_flops = {kSecond, kSecond, kSecond};
  shape.loss_flops = 0.1 * kSecond;
  shape.in_flight = 2;
  shape.steps = steps;
  return shape;
}

StrategyInput SixNodes() {
  StrategyInput input;
  input.fleet = EvenFleet(6, 0.01, 0.02);
  input.shape = Shape(3);
  input.delta_boundaries = {10, 10, 10};
  input.microbatches_per_step = 4;
  input.skip_ratio = 0.5;
  return input;
}

TEST_CASE("Every strategy plans every microbatch of every step over slots that exist",
          "[routing][strategy]") {
  const StrategyInput input = SixNodes();
  for (int i = 0; i < 5; ++i) {
    const auto strategy = static_cast<Strategy>(i);
    INFO(kStrategyNames[i]);
    const auto plan = RunStrategy(strategy, input);
    INFO(plan.status().ToString());
    REQUIRE(plan.ok());
    CHECK(std::set<int32_t>(plan->placement.begin(), plan->placement.end()).size() == 6);
    REQUIRE(plan->workload.microbatches.size() == 12);
    for (const auto& microbatch : plan->workload.microbatches) {
      const bool skips = strategy >= Strategy::kSkipPipe;
      CHECK(microbatch.slots.size() == (skips ? 2 : 3));
      std::set<int32_t> stages;
      for (const int32_t slot : microbatch.slots) {
        stages.insert(plan->workload.stage_of_slot.at(static_cast<size_t>(slot)));
      }
      CHECK(stages.size() == microbatch.slots.size());
      CHECK(plan->workload.stage_of_slot.at(static_cast<size_t>(microbatch.slots[0])) == 0);
    }
    Evaluator evaluator(plan->workload, input.fleet);
    CHECK(evaluator.StepSeconds(plan->placement) > 0);
  }
}

TEST_CASE("SWARM's wiring gives a twice as fast replica twice the work", "[routing][strategy]") {
  StrategyInput input = SixNodes();
  input.fleet.gflops[2] = 2;
  input.shape = Shape(60);
  const auto plan = RunStrategy(Strategy::kSwarm, input);
  REQUIRE(plan.ok());
  double fast = 0;
  double slow = 0;
  for (const auto& microbatch : plan->workload.microbatches) {
    (microbatch.slots[1] == 2 ? fast : slow) += 1;
  }
  CHECK(fast / slow == Approx(2).epsilon(0.05));
}

TEST_CASE("The parts of a step add up to its time, and an idle network leaves none of it",
          "[routing][critical]") {
  const StrategyInput input = SixNodes();
  const auto plan = RunStrategy(Strategy::kInOrder, input);
  REQUIRE(plan.ok());
  const auto parts = [&](const Fleet& fleet) {
    Evaluator evaluator(plan->workload, fleet);
    const double step_s = evaluator.StepSeconds(plan->placement);
    const StepParts found =
        PartsOf(plan->workload, fleet, plan->placement, evaluator.Trace(plan->placement));
    CHECK(found.total_s() == Approx(step_s).epsilon(1e-9));
    return found;
  };
  const StepParts usual = parts(input.fleet);
  CHECK(usual.latency_s > 0);
  CHECK(usual.wire_s > usual.latency_s);
  const StepParts ideal = parts(EvenFleet(6, 0, 0));
  CHECK(ideal.latency_s == 0);
  CHECK(ideal.wire_s == 0);
  CHECK(ideal.largest.front().from_slot == ideal.largest.front().to_slot);
}

TEST_CASE("SkipPipe's search keeps its own rules", "[routing][strategy]") {
  SkipPipeProblem problem;
  problem.stage_sizes = {3, 2, 2, 2};
  problem.path_length = 3;
  problem.in_flight = 2;
  problem.waves = 2;
  problem.forward_s.assign(9, 0.5);
  for (int i = 0; i < 9; ++i) {
    for (int j = 0; j < 9; ++j)
      problem.transfer_s.push_back(i == j ? 0 : 0.3 + 0.1 * ((i + j) % 4));
  }
  const auto partitions = PlaceLikeSkipPipe(problem, {});
  REQUIRE(partitions.ok());
  const auto schedule = RouteLikeSkipPipe(problem, *partitions, {});
  INFO(schedule.status().ToString());
  REQUIRE(schedule.ok());
  CHECK(ValidateSchedule(problem, *schedule).ok());
  CHECK(schedule->microbatches.size() == 12);
  std::vector<int32_t> visits(9);
  for (const SkipPipeMicrobatch& microbatch : schedule->microbatches) {
    for (const int32_t node : microbatch.path) ++visits[static_cast<size_t>(node)];
  }
  for (const int32_t count : visits) CHECK(count == 4);  // equal loads: 12 visits over 3 nodes
}

}  // namespace
}  // namespace skerry
