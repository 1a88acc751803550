// What the messages of outer rounds take of a parameter, for planning.
#pragma once

#include <algorithm>

#include "common/run_config.h"

namespace skerry {

// As `codec`, for all tensors.
inline double CodecBitsOf(const OuterConfig& outer, DeltaCodec codec) {
  return codec == DeltaCodec::kLowRank ? double{outer.budget_bits} : DeltaBitsPerValue(codec);
}

// Of deltas: the budget where that is in bits, else what `codec` takes; a budget of error takes no
// more than that.
inline double DeltaBitsOf(const OuterConfig& outer) {
  if (outer.budget == CodecBudget::kBits) return static_cast<double>(outer.budget_bits);
  return CodecBitsOf(outer, outer.codec);
}

// Of sums: as deltas, or by a codec of their own.
inline double SumBitsOf(const OuterConfig& outer) {
  if (outer.down_codec == DownCodec::kAuto) return DeltaBitsOf(outer);
  return CodecBitsOf(outer, DownCodecOf(outer));
}

}  // namespace skerry
