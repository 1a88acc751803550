// Sixteen-bit numbers, and blocks of eight-bit ones, as files of models have them. Rounded to
// nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace skerry {

inline float FromBf16Bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline float FromF16Bits(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t ToBf16Bits(float value);
uint16_t ToF16Bits(float value);  // beyond 65504: infinity

bool AreFinite(std::span<const float> values);

// GGUF's Q8_0: 32 values as one f16 scale, the largest magnitude / 127, and 32 int8.
inline constexpr int64_t kQ8Values = 32;
struct Q8Block {
  uint16_t scale;
  int8_t values[kQ8Values];
};
static_assert(sizeof(Q8Block) == 34);
Q8Block ToQ8(std::span<const float> values);  // [kQ8Values]

}  // namespace skerry
