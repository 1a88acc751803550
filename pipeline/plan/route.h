// Which way a microbatch goes, and what that means for one node: pure functions of a plan, used by
// every node at run time, so that all of them agree without talking.
//
// Patching (docs/PROTOCOL.md, 13): a slot whose node is dead is filled by the next live replica of
// its stage, counted cyclically; a stage without a live replica is left out; a path whose stage-0
// node is dead starts at the next live stage-0 replica. So a live node of the unpatched path is
// always on the patched one too, at the same place in the order of stages.
//
// The plan must be well formed (validate.h); asking about a stage or a microbatch that it does not
// have is a bug (CHECK). Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/message/pipeline_plan.h"

namespace skerry {

// One microbatch of a step as one node sees it.
struct PlannedVisit {
  int32_t microbatch = 0;
  int32_t hop = 0;  // the node's index in PathOf(plan, step, microbatch); 0: it originates it
  bool operator==(const PlannedVisit&) const = default;
};

// The patched path of microbatch `microbatch` in [0, microbatches_per_step) of step `step` ≥ 0.
// Empty if no stage-0 replica lives. O(path length · replicas · log dead).
Path PathOf(const PipelinePlan& plan, int64_t step, int32_t microbatch);

// Where that path begins; nullopt if no stage-0 replica lives. O(1) while its replica lives.
std::optional<Slot> HomeOf(const PipelinePlan& plan, int64_t step, int32_t microbatch);

// The microbatches of a step whose patched path includes `node`, ascending. Empty for a dead node
// or a stranger.
std::vector<PlannedVisit> VisitsOf(const PipelinePlan& plan, int64_t step, const NodeId& node);

// Where a node stands in the plan, dead or alive; nullopt: nowhere.
std::optional<Slot> SlotOf(const PipelinePlan& plan, const NodeId& node);

// The node that holds a slot, dead or alive.
const NodeId& NodeOf(const PipelinePlan& plan, const Slot& slot);

// Replicas of a stage that are not dead, in slot order.
std::vector<NodeId> LiveReplicas(const PipelinePlan& plan, int32_t stage);

bool IsDead(const PipelinePlan& plan, const NodeId& node);

// `path` with dead slots replaced as above.
Path PatchedPath(const PipelinePlan& plan, const Path& path);

}  // namespace skerry
