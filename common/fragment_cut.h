// Where a stage's parameters are cut into fragments that have rounds of their own (streaming:
// common/round_clock.h).
//
// Cuts lie between blocks of tensors (a layer, the embedding), so that a tensor is never half old;
// cut points are those nearest to equal sizes. A function of the block sizes alone, so everybody
// who knows the model knows the fragments.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "common/check.h"

namespace skerry {

struct FragmentRange {
  int64_t first = 0;
  int64_t size = 0;
  bool operator==(const FragmentRange&) const = default;
};

// `fragments` ≥ 1 contiguous ranges of whole blocks. With fewer blocks than fragments the last
// ranges are empty.
inline std::vector<FragmentRange> CutFragments(std::span<const int64_t> block_sizes,
                                               int32_t fragments) {
  SKERRY_CHECK(fragments >= 1);
  const int64_t total = std::accumulate(block_sizes.begin(), block_sizes.end(), int64_t{0});
  std::vector<FragmentRange> ranges;
  size_t block = 0;
  int64_t first = 0;
  for (int32_t f = 0; f < fragments; ++f) {
    const int64_t ideal = total * (f + 1) / fragments;
    int64_t end = first;
    // A block belongs to this fragment when that brings the cut nearer to where it should be.
    while (block < block_sizes.size() &&
           (f + 1 == fragments ||
            std::llabs(end + block_sizes[block] - ideal) <= std::llabs(end - ideal))) {
      end += block_sizes[block++];
    }
    ranges.push_back({first, end - first});
    first = end;
  }
  return ranges;
}

}  // namespace skerry
