// What the planning job works on, and leaves behind for the actor.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/planner.h"
#include "pipeline/plan/reducer_shares.h"

namespace skerry {

struct CoordinatorActor::Planning {
  // But for the links, which the job makes of the readings: among a thousand nodes that takes half
  // a second, which no handler has.
  PlannerInput input;
  LinkEstimator readings;
  Instant began;
  absl::StatusOr<PlannedRun> planned = absl::UnknownError("not planned yet");

  void Make() {
    input.links = readings.Estimate(input.nodes, began);
    planned = MakePlan(input);
    if (planned.ok()) SetShares(input.config, input.links, &planned->plan);
  }
};

}  // namespace skerry
