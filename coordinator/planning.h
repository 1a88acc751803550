// What the planning job leaves behind for the actor.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/planner.h"

namespace skerry {

struct CoordinatorActor::Planning {
  absl::StatusOr<PlannedRun> planned = absl::UnknownError("not planned yet");
};

}  // namespace skerry
