// How many microbatches a node holds at worst, and whether they all can finish.
//
// A microbatch takes a place in the stash of every node on its path, in the order of the path, when
// its forward runs there, and gives it back with its backward, in the opposite order. With swaps
// two paths may visit two stages in opposite orders; nodes with few places that made microbatches
// *wait for a place* could then hold each other up for ever, each full of microbatches that wait
// for a place at the other.
//
// Why nodes of this program cannot: they never wait for a place (pipeline/exec/stage_actor.h:
// whatever is ready runs). A microbatch waits for three things only. (1) A device: jobs end. (2) A
// start within its origin's window (`in_flight`): what is under way needs no second start, so
// windows empty. (3) Its node's step: nodes take no work of a step before they have done all their
// visits of earlier ones; by induction over steps the earliest step always ends. So every plan of
// distinct stages finishes, and what remains is memory: HeldAtMost says how much of it that takes.
//
// CheckNoDeadlock asks the other question, for nodes that do have a limit: is there an order in
// which everything finishes, whatever came first? It is the banker's reduction (Dijkstra, EWD 108;
// Habermann 1969) on claims known in advance. Slots that can never be asked for more than their
// places hold up nobody. Of the others, a slot is *safe* if fewer microbatches than it has places
// can hold it and still need a later slot that is not known to be safe: then one of its holders
// always gets through and gives its place back. Repeated until nothing changes; slots that are left
// may hold each other up. Never wrong in saying "safe"; exact for two slots. Steps do not meet: who
// is at work on a step holds nothing of earlier ones.
//
// Pure. The plan must be well formed (validate.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

using SlotCounts = std::vector<std::vector<int32_t>>;  // [stage][replica]

// The most microbatches that a slot can have between forward and backward at one time, in any step:
// of every origin's microbatches that pass through it in a step, never more than the origin's
// window of `in_flight`. Paths are those around the dead of the plan; joiners count as at work.
SlotCounts HeldAtMost(const PipelinePlan& plan, int32_t in_flight);

// Nodes with so many places in their stash, that let a microbatch wait while all are taken, finish
// every step. FailedPrecondition names slots that may hold each other up.
absl::Status CheckNoDeadlock(const PipelinePlan& plan, int32_t in_flight, const SlotCounts& places);

}  // namespace skerry
