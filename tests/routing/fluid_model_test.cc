#include "routing/fluid_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/rng.h"
#include "routing/joint_state.h"

namespace skerry {
namespace {

// Four nodes, alike, every link 1 s, forward 1 s, backward 2 s, no gaps.
SkipPipeProblem SmallProblem() {
  SkipPipeProblem problem;
  problem.stage_sizes = {2, 1, 1};
  problem.path_length = 3;
  problem.in_flight = 2;
  problem.waves = 2;
  problem.forward_s = {1, 1, 1, 1};
  problem.transfer_s.assign(16, 1);
  problem.backward_factor = 2;
  problem.loss_factor = 0;
  problem.task_gap_s = 0;
  problem.start_gap_s = 0;
  return problem;
}

TEST_CASE("The fluid model is what its header says, worked by hand", "[routing][fluid]") {
  const SkipPipeProblem problem = SmallProblem();
  FluidModel model(problem);
  FlatSchedule schedule{3, {}, {}};
  for (int32_t m = 0; m < 8; ++m) {
    schedule.path.insert(schedule.path.end(), {m / 4, 2, 3});
    schedule.microbatches.push_back({0, 0, 0});
  }
  // A tour takes 3 · 3 + 3 · 2 = 15 s, a visit 3 s of computing. Nodes 0 and 1: two waves, and
  // one and a half visits in the way, 30 + 4.5 s. Node 2 holds memory 10 s in each of eight visits
  // with two slots, 15 + 3 · 10 + 1.5 s; node 3 holds it 5 s, 15 + 3 · 5 + 1.5 s, less than its
  // computing, 15 − 5 + 8 · 3 s.
  const double eighth = (2 * std::pow(34.5, 8) + std::pow(46.5, 8) + std::pow(34.0, 8)) / 4;
  CHECK(model.Cost(schedule) == Approx(std::pow(eighth, 1.0 / 8)).epsilon(1e-9));
}

TEST_CASE("The fluid model's cost depends on the plan, not on how the search came to it",
          "[routing][fluid][property]") {
  SkipPipeProblem problem = SmallProblem();
  Rng speeds(3);
  for (double& seconds : problem.forward_s) seconds = speeds.Uniform();
  for (double& seconds : problem.transfer_s) seconds = speeds.Uniform();
  auto state = JointState::Create(problem, {{0, 1}, {2}, {3}}, 100);
  REQUIRE(state.ok());
  FluidModel model(problem);
  Rng rng(5);

  for (int i = 0; i < 500; ++i) {
    if (!state->Move({true, true}, {}, rng)) continue;
    const double cost = model.Cost(state->schedule());
    CHECK(cost == FluidModel(problem).Cost(state->schedule()));
    if (i % 2 == 0) state->Undo();
  }
}

}  // namespace
}  // namespace skerry
