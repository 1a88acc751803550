// What a planner must be given.
#pragma once

#include "absl/status/status.h"
#include "pipeline/plan/planner.h"

namespace skerry {

// InvalidArgument or FailedPrecondition says what was wanted, what came and what to do: no nodes,
// nodes out of order or without device or links, figures that are not finite or negative, settings
// out of range.
absl::Status CheckInput(const PlannerInput& input);

}  // namespace skerry
