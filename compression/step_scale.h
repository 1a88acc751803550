// The scale of the coarse codecs (sign, ternary, top-k): one byte names a *step*, a whole number of
// units of fixed_point.h with three significant bits.
//
//   code 0                  0: the values it scales are all zero
//   code 1 … kStepCodeMax   m · 2^s units, m = 4 + (code − 1) mod 4, s = 2 + (code − 1) / 4
//
// Decoded values are ± steps, so sums stay exact, as with powers of two; but a coarse codec's step
// also sets how many values it sends, and whole octaves would let that rate swing by a factor of
// three. Steps are a quarter octave apart; the least is 2^-36, the largest 1792 < kMagnitudeMax.
#pragma once

#include <bit>
#include <cstdint>

#include "compression/fixed_point.h"

namespace skerry {

inline constexpr int kStepShiftMin = 2;
inline constexpr int kStepShiftMax = 48;
inline constexpr uint8_t kStepCodeMax = 4 * (kStepShiftMax - kStepShiftMin) + 4;

// In steps, float32 bit patterns and codes count alike, 2^21 patterns to a code.
inline constexpr int kStepPatternShift = 21;
inline constexpr int32_t kStepPatternBias = 4 * (127 + 2 + kStepShiftMin + kQuantumExponent) - 1;

// The nearest step to x ≥ 0 (a tie goes up), but 0 below half the least one. x is finite.
constexpr uint8_t NearestStep(float x) {
  if (x < 0x1p-37f) return 0;
  const auto bits = std::bit_cast<int32_t>(x) + (1 << (kStepPatternShift - 1));
  const int32_t code = (bits >> kStepPatternShift) - kStepPatternBias;
  return static_cast<uint8_t>(code < 1 ? 1 : code > kStepCodeMax ? kStepCodeMax : code);
}

constexpr int64_t StepUnits(uint8_t code) {
  if (code == 0) return 0;
  return static_cast<int64_t>(4 + (code - 1) % 4) << (kStepShiftMin + (code - 1) / 4);
}

constexpr float StepValue(uint8_t code) {
  if (code == 0) return 0.0f;
  return std::bit_cast<float>((code + kStepPatternBias) << kStepPatternShift);
}

static_assert(StepValue(1) == 0x1p-36f && StepUnits(1) == 16);
static_assert(StepValue(kStepCodeMax) == 1792.0f && StepUnits(kStepCodeMax) == 7LL << 48);
static_assert(NearestStep(kMagnitudeMax) == kStepCodeMax && NearestStep(0x1p-36f) == 1);

}  // namespace skerry
