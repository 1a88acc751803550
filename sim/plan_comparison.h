// One topology planned by Skerry and by others, every plan by the same evaluator: what `skerry-sim
// plan TOPOLOGY` shows.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/plan/plan_model.h"
#include "routing/critical_path.h"
#include "routing/strategy.h"
#include "sim/plan_topology.h"

namespace skerry {

struct ShownPlan {
  std::string strategy;  // "skerry" or of kStrategyNames
  std::string note;
  PlanModel model;  // its placement is of this strategy; slots keep their stage
  Evaluation evaluation;
  StepParts parts;
  std::vector<TaskRecord> records;
  double ring_s = 0;     // of a step: the slowest cohort sums its gradients
  double exposed_s = 0;  // outer traffic that is not hidden, per step
  double held_up_s = 0;  // by outer traffic that is hidden, per step
  double bound_s = 0;    // of this placement
  double plan_s = 0;     // wall time
  double outer_s() const { return std::max(exposed_s, held_up_s); }
  double step_s() const { return evaluation.step_s + outer_s(); }
  // Who fills a slot, counted as the nodes of the topology.
  const NodeId& NodeOf(int32_t slot) const {
    return model.node_of_slot[static_cast<size_t>(model.placement[static_cast<size_t>(slot)])];
  }
};

struct PlanComparison {
  std::string name;
  Topology topology;
  PipelinePlan plan;                // Skerry's
  OuterChoice outer;                // its outer rounds, chosen or given
  bool outer_was_open = false;      // some of that was the planner's to choose
  double plain_step_s = 0;          // its step, were no link compressed
  double lower_bound_s = 0;         // of any placement of it
  std::string explanation;          // the planner's
  std::vector<ShownPlan> plans;     // Skerry's first
  std::vector<std::string> failed;  // strategies without a plan, and why
};

struct ComparisonOptions {
  std::vector<std::string> strategies;  // names of kStrategyNames
  double budget_s = 10;                 // of each search among them; Skerry's own takes its time
  std::function<double()> seconds;      // a clock
};

absl::StatusOr<PlanComparison> ComparePlans(const Scenario& scenario, const RunConfig& run,
                                            const ComparisonOptions& options);

}  // namespace skerry
