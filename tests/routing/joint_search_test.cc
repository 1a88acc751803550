#include "routing/joint_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/rng.h"
#include "routing/joint_bound.h"
#include "routing/joint_state.h"
#include "routing/origin_bound.h"
#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_simulator.h"

namespace skerry {
namespace {

// Nodes on a plane: seconds between two are their distance and something fixed.
SkipPipeProblem RandomProblem(uint64_t seed, std::vector<int32_t> stage_sizes, int32_t length,
                              int32_t in_flight, int32_t waves) {
  SkipPipeProblem problem;
  problem.stage_sizes = std::move(stage_sizes);
  problem.path_length = length;
  problem.in_flight = in_flight;
  problem.waves = waves;
  int32_t n = 0;
  for (const int32_t size : problem.stage_sizes) n += size;
  Rng rng(seed, "random problem");
  std::vector<double> x(static_cast<size_t>(n));
  std::vector<double> y(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 3 * rng.Uniform();
    y[i] = 3 * rng.Uniform();
    problem.forward_s.push_back(0.5 + rng.Uniform());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) {
      problem.transfer_s.push_back(i == j ? 0 : 0.3 + std::hypot(x[i] - x[j], y[i] - y[j]));
    }
  }
  return problem;
}

std::vector<std::vector<int32_t>> InOrder(const SkipPipeProblem& problem) {
  std::vector<std::vector<int32_t>> partitions;
  int32_t next = 0;
  for (const int32_t size : problem.stage_sizes) {
    partitions.emplace_back();
    for (int32_t i = 0; i < size; ++i) partitions.back().push_back(next++);
  }
  return partitions;
}

// What the issue demands of every plan, checked from the plan alone.
void CheckPlan(const SkipPipeProblem& problem, const SkipPipeSchedule& schedule, bool equal_loads) {
  CHECK(ValidateSchedule(problem, schedule).ok());
  CHECK(schedule.microbatches.size() == static_cast<size_t>(problem.microbatches()));
  std::vector<int32_t> stage_of(static_cast<size_t>(problem.nodes()));
  for (size_t s = 0; s < schedule.partitions.size(); ++s) {
    for (const int32_t node : schedule.partitions[s]) {
      stage_of[static_cast<size_t>(node)] = static_cast<int32_t>(s);
    }
  }
  std::vector<int32_t> stage_visits(problem.stage_sizes.size());
  std::vector<int32_t> loads(stage_of.size());
  for (const SkipPipeMicrobatch& microbatch : schedule.microbatches) {
    std::vector<int32_t> stages;
    for (const int32_t node : microbatch.path) {
      stages.push_back(stage_of[static_cast<size_t>(node)]);
      ++stage_visits[static_cast<size_t>(stages.back())];
      ++loads[static_cast<size_t>(node)];
    }
    CHECK(IsAllowedPath(problem, stages));
  }
  for (size_t s = 2; s < stage_visits.size(); ++s) CHECK(stage_visits[s] == stage_visits[1]);
  for (size_t s = 0; s < schedule.partitions.size() && equal_loads; ++s) {
    for (const int32_t node : schedule.partitions[s]) {
      CHECK(loads[static_cast<size_t>(node)] ==
            loads[static_cast<size_t>(schedule.partitions[s][0])]);
    }
  }
}

TEST_CASE("Every plan keeps the stages, their participation, the paths' rules and its bound",
          "[routing][joint]") {
  const uint64_t seed = GENERATE(1, 2, 3);
  const JointMode mode = GENERATE(JointMode::kStrict, JointMode::kFull);
  const bool strict = mode == JointMode::kStrict;
  const SkipPipeProblem problem = RandomProblem(seed, {3, 2, 2, 2}, 3, 2, 2);
  const auto partitions = InOrder(problem);

  const auto plan = SearchJointly(problem, partitions, {mode, seed, 3000, {}, {}});

  REQUIRE(plan.ok());
  CheckPlan(problem, plan->schedule, strict);
  CHECK(LargestStageLink(problem, plan->schedule.partitions) <=
        LargestStageLink(problem, partitions));
  SkipPipeEvaluator evaluator(problem);
  SkipPipeSimulator simulator(problem);
  CHECK(plan->iteration_s == evaluator.IterationSeconds(Flatten(plan->schedule)));
  CHECK(plan->simulator_s == simulator.IterationSeconds(plan->schedule));
  const double bound = strict ? EqualLoadBound(problem, partitions) : AnyPlanBound(problem);
  CHECK(plan->iteration_s >= bound);
  CHECK(bound > 0.4 * plan->iteration_s);
}

TEST_CASE("Random plans of a placement are never faster than its bound",
          "[routing][joint][bound]") {
  const uint64_t seed = GENERATE(range(1, 8));
  const SkipPipeProblem problem = RandomProblem(seed, {2, 2, 2, 2}, 3, 2, 3);
  const auto partitions = InOrder(problem);
  const double strict = EqualLoadBound(problem, partitions);
  const double any = AnyPlanBound(problem);
  auto state = JointState::Create(problem, partitions, 100);
  REQUIRE(state.ok());
  SkipPipeEvaluator evaluator(problem);
  Rng rng(seed);

  for (int i = 0; i < 300; ++i) {
    state->Move({false, false}, {}, rng);
    CHECK(evaluator.IterationSeconds(state->schedule()) >= strict);
  }
  for (int i = 0; i < 300; ++i) {
    state->Move({true, true}, {}, rng);
    CHECK(evaluator.IterationSeconds(state->schedule()) >= any);
  }
}

TEST_CASE("A stage-0 node's own tasks bound its iteration, worked by hand",
          "[routing][joint][bound]") {
  SkipPipeProblem problem;
  problem.stage_sizes = {1, 1};
  problem.in_flight = 2;
  problem.forward_s = {1, 1};
  problem.backward_factor = 2;
  problem.task_gap_s = 0;
  problem.start_gap_s = 0;
  // Tours of 10 s. Starts at 0 and 1; backwards from 8 and 10 on (one task at a time); the third
  // starts at 10, is back at 20.
  CHECK(OriginSeconds(problem, 0, 10, 1) == 10);
  CHECK(OriginSeconds(problem, 0, 10, 2) == 12);
  CHECK(OriginSeconds(problem, 0, 10, 3) == 20);
}

TEST_CASE("Equal loads are bounded by the shortest tour there is, worked by hand",
          "[routing][joint][bound]") {
  SkipPipeProblem problem;
  problem.stage_sizes = {1, 1, 1};
  problem.path_length = 3;
  problem.in_flight = 2;
  problem.waves = 2;
  problem.forward_s = {1, 1, 1};
  problem.transfer_s = {0, 1, 10, 1, 0, 10, 10, 10, 0};
  problem.backward_factor = 1;
  problem.loss_factor = 0;
  problem.task_gap_s = 0;
  problem.start_gap_s = 0;
  // The one tour takes 3 · 2 + 2 · 21 = 48 s; between nodes 0 and 1 alone a walk would be shorter.
  // The first backward at home is from 47 s on; the fourth start follows two backwards and the
  // third start, at 50 s, and is back at 98 s.
  CHECK(EqualLoadBound(problem, InOrder(problem)) == Approx(98));

  const auto plan = SearchJointly(problem, InOrder(problem), {JointMode::kStrict, 1, 1000, {}, {}});
  REQUIRE(plan.ok());
  CHECK(plan->iteration_s >= 98);
}

TEST_CASE("A limit only cuts short what is above it", "[routing][joint]") {
  const SkipPipeProblem problem = RandomProblem(GENERATE(1, 2, 3), {3, 2, 2, 2}, 3, 2, 3);
  auto state = JointState::Create(problem, InOrder(problem), 100);
  REQUIRE(state.ok());
  SkipPipeEvaluator evaluator(problem);
  SkipPipeEvaluator fresh(problem);
  Rng rng(7);

  for (int i = 0; i < 300; ++i) {
    state->Move({true, true}, {}, rng);
    const double cost = evaluator.Cost(state->schedule(), 0.1, 1e9);
    if (std::isinf(cost)) continue;
    CHECK(fresh.Cost(state->schedule(), 0.1, cost * (1 + 1e-9)) == Approx(cost).epsilon(1e-12));
    CHECK(std::isinf(fresh.Cost(state->schedule(), 0.1, cost * (1 - 1e-9))));
    std::vector<SkipPipeEvaluator::Visit> critical;
    evaluator.Cost(state->schedule(), 0.1, 1e9);
    evaluator.CriticalPath(critical);
    CHECK_FALSE(critical.empty());
    CHECK(critical.front().hop == 0);  // the last backward comes home
  }
}

// Nodes renamed in reverse.
SkipPipeProblem Reversed(const SkipPipeProblem& problem) {
  SkipPipeProblem reversed = problem;
  std::reverse(reversed.forward_s.begin(), reversed.forward_s.end());
  std::reverse(reversed.transfer_s.begin(), reversed.transfer_s.end());
  return reversed;
}

TEST_CASE("Other names of nodes or another unit of time change the bound only by that unit",
          "[routing][joint][property]") {
  const SkipPipeProblem problem = RandomProblem(GENERATE(1, 2, 3, 4), {2, 2, 2, 2}, 3, 2, 2);
  CHECK(AnyPlanBound(Reversed(problem)) == Approx(AnyPlanBound(problem)).epsilon(0.003));

  SkipPipeProblem slower = problem;
  for (double& seconds : slower.forward_s) seconds *= 2;
  for (double& seconds : slower.transfer_s) seconds *= 2;
  slower.task_gap_s *= 2;
  slower.start_gap_s *= 2;
  CHECK(AnyPlanBound(slower) == Approx(2 * AnyPlanBound(problem)).epsilon(0.003));
}

TEST_CASE("A move that is taken back leaves nothing behind", "[routing][joint]") {
  const SkipPipeProblem problem = RandomProblem(5, {3, 2, 2, 2}, 3, 2, 2);
  auto state = JointState::Create(problem, InOrder(problem), 100);
  REQUIRE(state.ok());
  Rng rng(1);

  for (int i = 0; i < 500; ++i) {
    const SkipPipeSchedule before = state->ToSchedule();
    if (state->Move({true, true}, {}, rng) && i % 3 == 0) continue;
    state->Undo();
    const SkipPipeSchedule after = state->ToSchedule();
    REQUIRE(after.partitions == before.partitions);
    for (size_t m = 0; m < before.microbatches.size(); ++m) {
      REQUIRE(after.microbatches[m].path == before.microbatches[m].path);
      REQUIRE(after.microbatches[m].lane == before.microbatches[m].lane);
      REQUIRE(after.microbatches[m].wave == before.microbatches[m].wave);
    }
  }
}

TEST_CASE("The same seed and budget give the same plan, and stopping early gives a plan, too",
          "[routing][joint]") {
  const SkipPipeProblem problem = RandomProblem(9, {3, 2, 2, 2}, 3, 2, 2);
  const JointOptions options{JointMode::kFull, 4, 2000, {}, {}};
  const auto one = SearchJointly(problem, {}, options);
  const auto two = SearchJointly(problem, {}, options);
  JointOptions stopped = options;
  stopped.spent = [] { return 1.0; };
  const auto early = SearchJointly(problem, {}, stopped);

  REQUIRE((one.ok() && two.ok() && early.ok()));
  CHECK(one->iteration_s == two->iteration_s);
  CHECK(one->schedule.partitions == two->schedule.partitions);
  CHECK(early->iteration_s >= one->iteration_s);
}

// All plans of five nodes: four microbatches over two origins, a stage of one node and one of two.
double BestByExhaustion(const SkipPipeProblem& problem) {
  SkipPipeEvaluator evaluator(problem);
  double best = 1e9;
  std::vector<int32_t> nodes = {0, 1, 2, 3, 4};
  do {
    if (nodes[0] > nodes[1] || nodes[3] > nodes[4]) continue;
    // Per microbatch: which origin, which node of stage 2, and whether that comes first.
    for (int32_t choice = 0; choice < 1 << 12; ++choice) {
      FlatSchedule schedule{3, {}, {}};
      int32_t count[2] = {0, 0};
      for (int32_t m = 0; m < 4; ++m) {
        const int32_t origin = choice >> (3 * m) & 1;
        const int32_t last = nodes[static_cast<size_t>(3 + (choice >> (3 * m + 1) & 1))];
        const bool swapped = (choice >> (3 * m + 2) & 1) != 0;
        schedule.path.push_back(nodes[static_cast<size_t>(origin)]);
        schedule.path.push_back(swapped ? last : nodes[2]);
        schedule.path.push_back(swapped ? nodes[2] : last);
        const int32_t wave = count[origin]++;
        schedule.microbatches.push_back({origin, wave, wave * 2.5});
      }
      best = std::min(best, evaluator.IterationSeconds(schedule, best));
    }
  } while (std::next_permutation(nodes.begin(), nodes.end()));
  return best;
}

TEST_CASE("On five nodes the search finds what exhaustion finds", "[routing][joint][exhaustive]") {
  const SkipPipeProblem problem = RandomProblem(GENERATE(1, 2, 3), {2, 1, 2}, 3, 1, 2);

  const auto plan = SearchJointly(problem, {}, {JointMode::kFull, 1, 10000, {}, {}});

  REQUIRE(plan.ok());
  const double best = BestByExhaustion(problem);
  CHECK(plan->iteration_s >= best - 1e-9);
  CHECK(plan->iteration_s <= 1.01 * best);
  CHECK(AnyPlanBound(problem) <= best);
}

TEST_CASE("Problems without a plan are explained", "[routing][joint][error]") {
  SkipPipeProblem problem = RandomProblem(1, {2, 2, 2, 2}, 3, 1, 1);
  const auto uneven = SearchJointly(problem, {}, {});
  CHECK(uneven.status().ToString().find("not the same for every stage") != std::string::npos);

  problem.transfer_s[1] = NAN;
  CHECK(SearchJointly(problem, {}, {}).status().ToString().find("link 0 to 1") !=
        std::string::npos);

  problem = RandomProblem(1, {2, 2, 2}, 3, 1, 1);
  CHECK_FALSE(SearchJointly(problem, {}, {JointMode::kStrict, 1, 10, {}, {}}).ok());
}

}  // namespace
}  // namespace skerry
