// The part of validate.h that counts visits.
#pragma once

#include "absl/status/status.h"
#include "common/run_config.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// Stages and replicas take part equally, over the table and over any kParticipationSteps steps;
// paths skip what the configuration says. Paths are well formed.
absl::Status CheckLoads(const PipelinePlan& plan, const RunConfig& config);

}  // namespace skerry
