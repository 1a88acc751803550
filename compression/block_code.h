// What the block codes share: blocks of kCodecBlock values, one scale byte each, all of them at the
// front of the message.
#pragma once

#include <algorithm>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"

namespace skerry {

constexpr int64_t BlocksOf(int64_t n) {
  return (n + kCodecBlock - 1) / kCodecBlock;
}

// InvalidArgument names the first scale above `most`.
inline absl::Status CheckScales(std::span<const uint8_t> scales, uint8_t most) {
  const auto bad =
      std::find_if(scales.begin(), scales.end(), [most](uint8_t scale) { return scale > most; });
  if (bad == scales.end()) return absl::OkStatus();
  return InvalidArgument("delta: scale of block %d is %d, want at most %d", bad - scales.begin(),
                         *bad, most);
}

// The caller of a Range function kept to its contract.
inline void CheckRange(int64_t n, int64_t first, size_t size) {
  const int64_t end = first + static_cast<int64_t>(size);
  SKERRY_CHECK(first >= 0 && first % kCodecBlock == 0 && end <= n &&
               (end % kCodecBlock == 0 || end == n));
}

}  // namespace skerry
