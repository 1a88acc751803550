// An order of nodes that does not depend on their names, so that relabelling a fleet changes no
// plan's predicted time.
//
// Colour refinement (Weisfeiler and Leman 1968): a node's colour is its own features, then again
// and again those of its links and of the nodes at their other ends, until no class splits any
// more. What is still alike is told apart one node at a time (the first by index), then refined
// again. Ties that remain are symmetries in all but contrived networks.
#pragma once

#include <cstdint>
#include <vector>

namespace skerry {

// Beyond so many nodes, ties go by index after the first refinement.
inline constexpr int32_t kIndividualisedNodesMax = 128;

//   node_features [n]     any hash of what distinguishes nodes
//   pair_features [n, n]  any hash of the link row → column; the diagonal is not read
// Returns indices in canonical order.
std::vector<int32_t> CanonicalOrder(const std::vector<uint64_t>& node_features,
                                    const std::vector<uint64_t>& pair_features);

}  // namespace skerry
