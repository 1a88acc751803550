// Where a stage's backward pass may stop so that the gradients of a part are final: runs of whole
// layers from the last to the first. Whoever sums gradients over several replicas of a stage
// (pipeline/exec/cohort.h) sums the parts in this order, the first while the pass still runs (the
// buckets of Li et al., "PyTorch distributed", 2020, section 3.2.3). A function of sizes alone, so
// equal for all replicas of a stage, and known to whoever plans it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace skerry {

struct BackwardPart {
  int32_t down_to = 0;           // the layer after which its gradients are final
  int64_t offset = 0, size = 0;  // of the stage's arrays, which the parts share out
  bool operator==(const BackwardPart&) const = default;
};

// At most this many, about equal, and none but the last of fewer values than the least; an
// operation among far machines takes its time whatever it carries.
inline constexpr int64_t kBackwardPartsMax = 8;
inline constexpr int64_t kBackwardPartMin = int64_t{1} << 18;

// `offsets`: where its layers begin, from `first_layer` on, in the stage's arrays of `size` values.
// Cut between ladders where there are any (TransformerConfig::ladder). What lies behind the layers
// (final norm and head) is in the first part, what lies before them (the embedding) in the last
// one. At least one part.
inline std::vector<BackwardPart> CutBackward(std::span<const int64_t> offsets, int64_t size,
                                             int32_t first_layer, int64_t least = kBackwardPartMin,
                                             int32_t ladder = 0) {
  std::vector<BackwardPart> parts;
  const int64_t wanted = size / kBackwardPartsMax > least ? size / kBackwardPartsMax : least;
  int64_t end = size;
  for (size_t i = offsets.size(); i-- > 1;) {
    const int32_t layer = first_layer + static_cast<int32_t>(i);
    if (ladder > 0 && layer % ladder != 0) continue;
    const int64_t offset = offsets[i];
    const bool is_enough = end - offset >= wanted;
    if (!is_enough || std::ssize(parts) == kBackwardPartsMax - 1) continue;
    parts.push_back({layer, offset, end - offset});
    end = offset;
  }
  parts.push_back({first_layer, 0, end});
  return parts;
}

}  // namespace skerry
