// Where a stage's backward pass may stop so that the gradients of a part are final: runs of whole
// layers from the last to the first. Whoever sums gradients over several replicas of a stage
// (pipeline/exec/cohort.h) sums the parts in this order, the first while the pass still runs (the
// buckets of Li et al., "PyTorch distributed", 2020, section 3.2.3). Equal for all replicas of a
// stage.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameter_layout.h"

namespace skerry {

struct BackwardPart {
  int32_t down_to = 0;           // the layer after which its gradients are final
  int64_t offset = 0, size = 0;  // of the stage's arrays, which the parts share out
};

// At most this many, about equal, and none but the last of fewer values than the least; an
// operation among far machines takes its time whatever it carries.
inline constexpr int64_t kBackwardPartsMax = 8;
inline constexpr int64_t kBackwardPartMin = int64_t{1} << 18;

// Of layers [first_layer, last_layer), cut between ladders where there are any
// (TransformerConfig::ladder); final norm and head are in the first part, the embedding in the last
// one. At least one part.
std::vector<BackwardPart> BackwardParts(const ParameterLayout& layout, int32_t first_layer,
                                        int32_t last_layer, int64_t least = kBackwardPartMin,
                                        int32_t ladder = 0);

// What the devices of a node sum by, to whom an operation costs little: the same parts, each cut
// further, at most kBackwardCutsMax in all but for what is left over of each. So the last one's
// sum, behind which nothing computes, is a smaller share.
inline constexpr int64_t kBackwardCutsMax = 32;
std::vector<BackwardPart> BackwardCuts(const std::vector<BackwardPart>& parts,
                                       const ParameterLayout& layout, int32_t last_layer,
                                       int64_t least = kBackwardPartMin, int32_t ladder = 0);

}  // namespace skerry
