#include "sim/plan_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "routing/held_up.h"
#include "routing/lower_bound.h"

namespace skerry {
namespace {

absl::Status Measure(ShownPlan& shown) {
  const PlacementProblem& problem = shown.model.problem;
  Evaluator evaluator(problem.workload, problem.fleet, Lines::kShared);
  const StepRings rings = RingsOf(problem, shown.model.placement);
  shown.evaluation = evaluator.Evaluate(shown.model.placement, &rings);
  if (!std::isfinite(shown.evaluation.step_s)) {
    return FailedPrecondition("its paths use links that do not work");
  }
  shown.records = evaluator.Trace(shown.model.placement, &rings);
  shown.parts = PartsOf(problem.workload, problem.fleet, shown.model.placement, shown.records);
  shown.ring_s = RingSeconds(problem, shown.model.placement);
  shown.exposed_s = ExposedSeconds(problem, shown.model.placement, shown.evaluation.step_s);
  shown.held_up_s = HeldUpSeconds(problem, shown.model.placement, shown.evaluation.step_s);
  shown.bound_s = PlacementBound(problem.workload, problem.fleet, shown.model.placement);
  return absl::OkStatus();
}

// The same stages and replicas; nodes come to them in the order of the topology.
absl::StatusOr<ShownPlan> PlanLike(size_t strategy, const PlanComparison& comparison,
                                   const ComparisonOptions& options) {
  const PlannerInput& input = comparison.topology.input;
  PipelinePlan in_order = comparison.plan;
  auto next = input.nodes.begin();
  for (StageAssignment& stage : in_order.stages) {
    for (NodeId& node : stage.replicas) node = *next++;
    stage.cohorts.clear();  // the others have none
  }
  in_order.slow_links.clear();  // the others send everything as it is
  ShownPlan shown;
  shown.strategy = kStrategyNames[strategy];
  SKERRY_ASSIGN_OR_RETURN(shown.model, ModelOf(input, in_order));
  const double start = options.seconds();
  StrategyInput asked;
  asked.fleet = shown.model.problem.fleet;
  asked.shape = shown.model.problem.workload;
  for (size_t stage = 0; stage < in_order.stages.size(); ++stage) {
    const RoundAmounts amounts =
        shown.model.problem.outer.ToEach(stage, in_order.stages[stage].replicas.size());
    asked.delta_boundaries.push_back(amounts.all());
  }
  asked.microbatches_per_step = comparison.plan.microbatches_per_step;
  asked.skip_ratio = input.config.pipeline.skip_ratio;
  asked.seed = input.config.seed;
  asked.should_stop = [&] { return options.seconds() - start >= options.budget_s; };
  SKERRY_ASSIGN_OR_RETURN(StrategyPlan plan, RunStrategy(static_cast<Strategy>(strategy), asked));
  shown.plan_s = options.seconds() - start;
  shown.note = std::move(plan.note);
  shown.model.problem.workload = std::move(plan.workload);
  shown.model.placement = std::move(plan.placement);
  SKERRY_RETURN_IF_ERROR(Measure(shown));
  return shown;
}

}  // namespace

absl::StatusOr<PlanComparison> ComparePlans(const Scenario& scenario, const RunConfig& run,
                                            const ComparisonOptions& options) {
  PlanComparison comparison;
  comparison.name = scenario.name;
  SKERRY_ASSIGN_OR_RETURN(comparison.topology, TopologyOf(scenario, run));
  const double start = options.seconds();
  SKERRY_ASSIGN_OR_RETURN(PlannedRun planned, MakePlan(comparison.topology.input));
  comparison.outer = planned.outer;
  comparison.outer_was_open = IsOuterOpen(run.outer);
  comparison.plain_step_s = planned.plain_step_s;
  ShownPlan own;
  own.strategy = "skerry";
  own.plan_s = options.seconds() - start;
  own.note = "what the coordinator would do";
  SKERRY_ASSIGN_OR_RETURN(own.model, ModelOf(comparison.topology.input, planned.plan));
  SKERRY_RETURN_IF_ERROR(Measure(own));
  comparison.plan = std::move(planned.plan);
  comparison.lower_bound_s = planned.lower_bound_s;
  comparison.explanation = std::move(planned.explanation);
  comparison.plans.push_back(std::move(own));
  for (const std::string& name : options.strategies) {
    const auto found = std::find(std::begin(kStrategyNames), std::end(kStrategyNames), name);
    if (found == std::end(kStrategyNames)) continue;
    const auto strategy = static_cast<size_t>(found - std::begin(kStrategyNames));
    absl::StatusOr<ShownPlan> shown = PlanLike(strategy, comparison, options);
    if (shown.ok()) {
      comparison.plans.push_back(*std::move(shown));
    } else {
      comparison.failed.push_back(absl::StrFormat("%s: %s", name, ErrorText(shown.status())));
    }
  }
  return comparison;
}

}  // namespace skerry
