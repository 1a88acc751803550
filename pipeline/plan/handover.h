// Handing the slot of a dead node to a standby while the run trains (docs/PROTOCOL.md, 16;
// docs/decisions/0008-handover.md): the plans of it, and who should get which slot.
//
// Pure and deterministic. The plans given must be well formed (validate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/plan/planner.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// The next version of `plan`: `node` fills `slot`, whose node is dead, and joins. If it has a slot,
// a dead one, the other gets that. `base_version`: rounds of the stage that are committed. CHECK:
// both are dead, or `node` is not of the plan.
PipelinePlan WithJoiner(const PipelinePlan& plan, const Slot& slot, const NodeId& node,
                        int64_t base_version);

// The first step that nobody can make without round `round` − 1: where it lands. So whoever makes
// it has heard of everything that the coordinator said before that commit.
// round ≥ 1; the run's steps if that is at the end.
int64_t FirstStepAfter(const RunConfig& config, int64_t round);

// The next version of `plan`: the joiner `node` is a replica from FirstStepAfter(config, round) on.
// CHECK: it is a joiner whose first step is not fixed.
PipelinePlan WithFirstStep(const PipelinePlan& plan, const NodeId& node, const RunConfig& config,
                           int64_t round);

// Whether the program that said this of its device knows all that the plan uses.
bool KnowsWaysOf(const PipelinePlan& plan, const DeviceProfile& device);

// Whether `node`, of the input's devices, can hold a slot of that stage: it has the memory, and its
// program knows the plan's ways.
bool CanHoldSlot(const PlannerInput& input, const PipelinePlan& plan, int32_t stage,
                 const NodeId& node);

// Smaller is more urgent: the fewer replicas live, and stage 0 as if it had half of its own, since
// the run ends with its last one and goes on without any other stage.
std::pair<int64_t, int32_t> UrgencyOf(const PipelinePlan& plan, int32_t stage);

struct Handover {
  Slot slot;
  NodeId node;
  bool operator==(const Handover&) const = default;
};

// Of several ways to fill a slot of `stage`, what makes a step shortest: predicted with the links
// and devices of `input` (of the plan's nodes and of the candidates); where that says nothing, the
// fastest device, then the first slot. A standby whose own slot can be filled waits for that
// one if its stage is more urgent.
// Who cannot hold it gets none. nullopt: nobody can. At most kHandoversTried ways are predicted.
inline constexpr size_t kHandoversTried = 16;
std::optional<Handover> ChooseHandover(const PlannerInput& input, const PipelinePlan& plan,
                                       int32_t stage, const std::vector<NodeId>& standbys);

}  // namespace skerry
