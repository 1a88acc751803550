// A plan as the evaluator reads it: the very numbers with which the planner predicted its time, for
// whoever wants to show, compare or take apart that prediction.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/plan/planner.h"
#include "routing/placement.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct PlanModel {
  PlacementProblem problem;
  Placement placement;               // slot i is node i of the fleet
  std::vector<NodeId> node_of_slot;  // slots over all stages, stage 0 first
};

// As many steps as the planner's prediction looks at; what the plan settled counts, and its slow
// links are shrunk. `others`: nodes of the fleet, after those of the slots, who fill none.
// InvalidArgument if a node has no device or is not in the link matrix.
absl::StatusOr<PlanModel> ModelOf(const PlannerInput& input, const PipelinePlan& plan,
                                  const std::vector<NodeId>& others = {});

}  // namespace skerry
