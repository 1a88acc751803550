// Which way a microbatch goes, and what that means for one node: pure functions of a plan, used by
// every node at run time, so that all of them agree without talking.
//
// Patching (docs/PROTOCOL.md, 13): a slot whose node does not work at the step is filled by another
// replica of its stage that does; a stage without such a replica is left out; a path whose stage-0
// node does not work starts at another stage-0 replica. Who fills it is the first that works in an
// order of asking that depends on the slot and, where PlannedSettings::spreads, on the path. So a
// working node of the unpatched path is always on the patched one too, at the same place in the
// order of stages, and who stands in does so until it does not work, or one that is asked earlier
// does. Dead nodes never work, joiners (16) from their first step on.
//
// The plan must be well formed (validate.h); asking about a stage or a microbatch that it does not
// have is a bug (CHECK). Any thread.
#pragma once

#include <cstdint>
#include <functional>
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
// Empty if no stage-0 replica works then. O(path length · replicas · log dead).
Path PathOf(const PipelinePlan& plan, int64_t step, int32_t microbatch);

// Whether a microbatch goes to a node that works.
enum class Shun : uint8_t {
  kNo,
  kRather,  // to another replica of its stage, if there is one
  kNever
};

// That path with every slot after stage 0 whose node is shunned replaced like one that does not
// work (docs/PROTOCOL.md, "Late"). Where no replica of a stage is left that is not: one that is
// shunned kRather, unless the microbatch may leave the stage out for it; or none.
struct LedPath {
  Path path;
  std::vector<NodeId> passed;  // shunned ones that work and would have been visited
};
LedPath PathAround(const PipelinePlan& plan, int64_t step, int32_t microbatch, bool may_leave_out,
                   const std::function<Shun(const NodeId&)>& shun);

// Where that path begins; nullopt if no stage-0 replica works. O(1) while its replica does.
std::optional<Slot> HomeOf(const PipelinePlan& plan, int64_t step, int32_t microbatch);

// The microbatches of a step whose patched path includes `node`, ascending. Empty for a dead node
// or a stranger.
std::vector<PlannedVisit> VisitsOf(const PipelinePlan& plan, int64_t step, const NodeId& node);

// Where a node stands in the plan, dead or alive; nullopt: nowhere.
std::optional<Slot> SlotOf(const PipelinePlan& plan, const NodeId& node);

// The node that holds a slot, dead or alive.
const NodeId& NodeOf(const PipelinePlan& plan, const Slot& slot);

// Replicas of a stage that are not dead, joiners whose first step is not fixed left out, in slot
// order.
std::vector<NodeId> LiveReplicas(const PipelinePlan& plan, int32_t stage);

// Those, and every joiner: who holds the stage's deltas and hears of its commits.
std::vector<NodeId> Holders(const PipelinePlan& plan, int32_t stage);

// Those of them whose own deltas round `round` is made of, in slot order: of a cohort its speaker,
// where that is not absent (cohorts.h).
std::vector<NodeId> ParticipantsOf(const PipelinePlan& plan, int32_t stage, int64_t round);

// Whether the round is frozen without this live replica.
bool IsAbsent(const PipelinePlan& plan, int32_t stage, int64_t round, const NodeId& node);

// Rounds that a participant's message of `round` covers: that one, and those of the same fragment
// right before it from which it was absent. `fragments`: RoundClock::fragments().
int32_t RoundsCovered(const PipelinePlan& plan, int32_t stage, int64_t round, const NodeId& node,
                      int64_t fragments);

bool IsDead(const PipelinePlan& plan, const NodeId& node);

// nullptr: it is none.
const Joiner* JoinerOf(const PipelinePlan& plan, const NodeId& node);

// Whether microbatches of step `step` go through the slot of this node of the plan.
bool WorksAt(const PipelinePlan& plan, const NodeId& node, int64_t step);

// plan.paths[index] with the slots that do not work at `step` replaced as above.
Path PatchedPath(const PipelinePlan& plan, size_t index, int64_t step);

}  // namespace skerry
