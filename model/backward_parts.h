// The parts of a stage's backward pass (common/backward_cut.h), by its layout.
#pragma once

#include <cstdint>
#include <vector>

#include "common/backward_cut.h"
#include "model/parameter_layout.h"

namespace skerry {

// Of layers [first_layer, last_layer).
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
