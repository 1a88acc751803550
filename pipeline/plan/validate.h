// An independent reader of plans: checks what a plan must be, knowing nothing of how plans are
// made.
#pragma once

#include <map>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "wire/message/device_profile.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

inline constexpr double kParticipationRatioMax = 1.02;

// Layers: every one of the model in exactly one stage, in order, none empty. Replicas: at least one
// a stage, no node twice. Dead: sorted, of the plan. Joiners: sorted, of the plan, alive; a fixed
// first step is one before which a round lands, and lies in its round. Paths: start at stage 0,
// stages distinct, slots exist, order displaced by at most config.pipeline.swaps exchanges of
// neighbours, every slot used. Balance: later stages take part equally and replicas of a stage
// carry equal load over the table, to a ratio of kParticipationRatioMax or one visit; the average
// share of skipped stages is the configured one, to 1/32 of a stage. InvalidArgument names the
// first breach.
absl::Status ValidatePlan(const PipelinePlan& plan, const RunConfig& config);

// Also: every node has a device, and the memory its stage needs. ResourceExhausted names the node.
absl::Status ValidateMemory(const PipelinePlan& plan, const RunConfig& config,
                            const std::map<NodeId, DeviceProfile>& devices);

}  // namespace skerry
