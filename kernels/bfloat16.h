// Between float32 and bf16, one value at a time.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/tensor_view.h"

namespace skerry {

inline float ToFloat(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// To nearest, ties to even; NaN stays NaN.
inline Bf16 ToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

}  // namespace skerry
