// What the deltas of outer rounds cost although inner steps hide them: until they are there they
// share the lines with microbatches.
//
// At the boundary a replica hands its message to each other of its stage, all at once. On its own
// line they give way (LineSharing); on a line of those who get them they are others' deltas, each
// of which gets as much as the one or two messages that microbatches have under way:
//
//   a line of one that hears 11 others, when a microbatch's message m comes
//
//   plain     ▇▇▇▇ m              with a round   ▁▁▁▁▁▁▁▁▁▁▁▁ … ▁▁▁▁ m     a twelfth of the line
//                                                ████████████ … ████ deltas  the other eleven
//
// So the pipeline all but waits for the node whose deltas take longest, once in τ steps. The steps
// between are as if there were no rounds: this is part of their mean, not of their median. As much
// as deltas take of the line on average would be far less, as only those few messages stand still
// that cross a line in the meantime, but others wait for them. Where a line is believed in that is
// none (line_sharing.h), too much is counted.
//
// Simpler than a round is: the sums of a sharded one leave with the pieces, all replicas sum equal
// parts, and what speakers of cohorts pass on is left out.
//
// Pure; any thread.
#pragma once

#include "routing/evaluator.h"

namespace skerry {

struct PlacementProblem;  // placement.h

// More than that nobody looks at: it would take seconds.
inline constexpr size_t kRoundMessagesMax = 4000;

// What those who speak in their stages hand over in a round, when they have done half of the
// workload's steps. Empty: nobody has others; or they are too many.
RoundMessages RoundOf(const PlacementProblem& problem, const Placement& placement);

// Seconds per step, ≥ 0. `step_s`: a step without rounds, as Lines::kShared has it; finite. 0 where
// nothing is hidden (δ = 0): there microbatches wait for all of a round.
double HeldUpSeconds(const PlacementProblem& problem, const Placement& placement, double step_s);

}  // namespace skerry
