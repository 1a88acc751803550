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
inline constexpr int64_t kParticipationSteps = 100;
// Where a stage or a replica is visited so seldom that 2 % are less than these: whole visits cannot
// be dealt more evenly while columns are kept (path_table.h).
inline constexpr int64_t kUnevenVisitsMax = 6;

// Settings: in range; τ divides the steps, δ ≤ τ. Layers: every one of the model in exactly one
// stage, in order, none empty. Replicas: at least one a stage, no node twice. Dead: sorted, of the
// plan. Joiners: sorted, of the plan, alive, named by this plan or an earlier one; a fixed first
// step is one before which a round lands, lies in its round, and that is not one whose base the
// joiner has. Cohorts: a number from 0 for each slot of a stage, or none.
// Slow links: sorted, each once, between different nodes of the plan. Paths: closed
// tours written open: start at stage 0, stages distinct, slots exist, order displaced by at most
// config.pipeline.swaps exchanges of neighbours, every slot used. Balance: later stages take part
// equally, and so do the replicas of a stage, over the table and over any kParticipationSteps
// steps, to a ratio of kParticipationRatioMax or one visit (in the latter kUnevenVisitsMax, and of
// replicas one for each time that a table of PathsMax comes round); the average share of skipped
// stages is the configured one, to 1/32 of a stage. InvalidArgument names the first breach.
absl::Status ValidatePlan(const PipelinePlan& plan, const RunConfig& config);

// `after` may follow `before` in a run: its version is the next, and what decides the arithmetic is
// the same: layers, number of replicas, paths, microbatches, settings. Only who fills which slot,
// who is dead, who joins and which links are slow may differ. InvalidArgument names the breach.
absl::Status ValidateNext(const PipelinePlan& before, const PipelinePlan& after);

// Also: every node has a device, and the memory its stage needs; and no node whose memory is known
// is ever sent more microbatches than that memory was reckoned for (safety.h). ResourceExhausted
// names the node.
absl::Status ValidateMemory(const PipelinePlan& plan, const RunConfig& config,
                            const std::map<NodeId, DeviceProfile>& devices);

// Most visits over fewest.
struct Unevenness {
  double stages = 1;         // of the stages after stage 0
  double replicas = 1;       // of the replicas of one stage, of the worst
  int64_t stages_apart = 0;  // visits
  int64_t replicas_apart = 0;
};
// Of any kParticipationSteps steps in a row, wherever in the table they begin. Paths of the table,
// without regard to the dead. The plan must be well formed.
Unevenness WorstParticipation(const PipelinePlan& plan);

}  // namespace skerry
