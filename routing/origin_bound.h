// How fast a stage-0 node can get its microbatches through, whatever the rest of the fleet does:
// the part of a bound that counts whole microbatches where a linear program splits them.
//
// The j-th start and the j-th backward of a node with m slots, in order of time, for a shortest
// tour R from a start to the end of its backward (b), with w and f the times of forward and
// backward, each with the gap after it:
//   s_1 = 0                 s_j ≥ s_{j−1} + w       one task at a time
//   b_j ≥ s_j + R − b       b_j ≥ b_{j−1} + f
//   s_j ≥ b_{j−m} + f       j > m: its slot was free, and the node idle, when it started
//   s_j ≥ b_1 + (j−m) f + (j−m−1) w                 before b_1 there are at most m starts
#pragma once

#include <cstdint>
#include <vector>

#include "routing/skippipe_problem.h"

namespace skerry {

// Seconds until `microbatches` ≥ 1 of this node are back. `tour_s`: its shortest tour.
double OriginSeconds(const SkipPipeProblem& problem, int32_t node, double tour_s,
                     int32_t microbatches);

// The least time in which any stage 0 (as many nodes as it has, freely chosen) gets all
// microbatches through. `tours_s`: [n] the shortest tour from each node.
double AnyOriginsBound(const SkipPipeProblem& problem, const std::vector<double>& tours_s);

}  // namespace skerry
