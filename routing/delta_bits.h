// What the messages of outer rounds take of a parameter, for planning.
#pragma once

#include <algorithm>

#include "common/run_config.h"

namespace skerry {

// Of deltas: the budget where that is in bits, else what `codec` takes; a budget of error takes no
// more than that.
inline double DeltaBitsOf(const OuterConfig& outer) {
  if (outer.budget == CodecBudget::kBits) return static_cast<double>(outer.budget_bits);
  return DeltaBitsPerValue(outer.codec);
}

// Of sums: as deltas, or by a codec of their own.
inline double SumBitsOf(const OuterConfig& outer) {
  if (outer.down_codec == DownCodec::kAuto) return DeltaBitsOf(outer);
  return DeltaBitsPerValue(DownCodecOf(outer));
}

}  // namespace skerry
