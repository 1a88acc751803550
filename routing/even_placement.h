// A first placement for the search by evaluation: annealing on the round trips of every stage-0
// slot, of which an exchange of two nodes changes only a few.
//
// The trips of a stage-0 slot's microbatches, summed, over what it may have under way are the time
// of a step without any queue (Little), and the step ends with the slowest such slot. So the cost
// is the 4-norm of these sums: near their largest, yet falling whenever one of them falls.
// coarse_placement.h has the plain sum, which lets one far column pay for many near ones.
// Hundreds of thousands of exchanges a second; deterministic for a seed.
#pragma once

#include <cstdint>

#include "routing/placement.h"

namespace skerry {

// `start` fits the memory of its nodes; so does what is returned. Pairs that cannot reach each
// other count as very far.
Placement EvenPlacement(const PlacementProblem& problem, const Placement& start, uint64_t seed,
                        int64_t exchanges);

}  // namespace skerry
