// What hidden rounds hold up is in what a plan says of a step (routing/held_up.h).
#include <catch2/catch.hpp>
#include <string>

#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/planner.h"
#include "routing/held_up.h"
#include "tests/pipeline/plan/random_fleet.h"

namespace skerry {
namespace {

TEST_CASE("Held up plans: a predicted step has its part of what hidden rounds hold up", "[plan]") {
  PlannerInput input = InputOf(DrawNodes(12, 2));
  input.config.outer.inner_steps = 4;
  input.config.outer.overlap_steps = 4;
  input.config.outer.codec = DeltaCodec::kNone;
  const auto run = MakePlan(input);
  REQUIRE(run.ok());
  const auto model = ModelOf(input, run->plan);
  REQUIRE(model.ok());
  const PlacementProblem& problem = model->problem;
  Evaluator evaluator(problem.workload, problem.fleet, Lines::kShared);
  const double step_s = StepSeconds(evaluator, problem, model->placement);
  const double held_up_s = HeldUpSeconds(problem, model->placement, step_s);
  CHECK(held_up_s > 0.01 * step_s);
  CHECK(ExposedSeconds(problem, model->placement, step_s) < held_up_s);
  CHECK(run->predicted_step_s == Approx(step_s + held_up_s));
  CHECK(run->explanation.find("s are outer rounds") != std::string::npos);

  // What replicas wait for anyway holds nobody up.
  input.config.outer.overlap_steps = 0;
  const auto waiting = MakePlan(input);
  REQUIRE(waiting.ok());
  CHECK(waiting->explanation.find("s are outer rounds") == std::string::npos);
  CHECK(waiting->explanation.find("s are outer traffic that 0 overlap") != std::string::npos);
}

}  // namespace
}  // namespace skerry
