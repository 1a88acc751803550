// Placements of a small fleet in the order in which they are worth evaluating.
//
// What every stage-0 node's round trips take without any queue, and what every node computes, is a
// bound of a step from below (lower_bound.h, the sums of it only) that costs a tenth of a
// microsecond. Of the 40,320 placements of eight nodes the best is among the first few hundred by
// that bound; whoever goes on until the bound exceeds what was found has proven it the best.
#pragma once

#include <cstddef>
#include <vector>

#include "routing/placement.h"

namespace skerry {

inline constexpr size_t kAllRankedSlots = 8;  // as many placements as can be ranked at once

struct PromisingPlacement {
  double cost_least = 0;  // of PlacementCost: no evaluation gives less
  Placement placement;
};

// The `most` of lowest cost_least, lowest first; only those that fit the memory and whose links
// work. `usual` as in PlacementCost. CHECK: at most kAllRankedSlots slots.
std::vector<PromisingPlacement> PromisingPlacements(const PlacementProblem& problem, double usual,
                                                    size_t most);

// Of all ways of all microbatches of a placement, the sum of the roots of latencies: so leaving a
// house counts beside leaving a continent.
double Distance(const PlacementProblem& problem, const Placement& placement);

// What placements are compared by: seconds, and a little for distance, where it is `usual` as much
// as kDistanceWeight of them. `usual`: the distance of the start, 0 or infinite if unknown.
double PlacementCost(double total_s, double distance, double usual);

}  // namespace skerry
