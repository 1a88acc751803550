// A placement for fleets too large to score many candidates by running their paths: annealing on
// the sum of all round trips, of which an exchange of two nodes changes only their own.
//
// That sum over what stage 0 may have under way is the time of a step without any queue (Little),
// so it leads where the evaluator would. Millions of exchanges in seconds; deterministic for a
// seed.
#pragma once

#include <cstdint>

#include "routing/placement.h"

namespace skerry {

// Of a message there and one back, finite also where there is no link.
double BothWaysSeconds(const Fleet& fleet, int32_t a, int32_t b);

// `start` fits the memory of its nodes; so does what is returned. Pairs that cannot reach each
// other count as very far.
Placement CoarsePlacement(const PlacementProblem& problem, const Placement& start, uint64_t seed,
                          int64_t exchanges);

}  // namespace skerry
