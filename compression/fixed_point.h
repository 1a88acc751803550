// The fixed-point grid in which decoded deltas are added, so that a sum is the same on every
// machine in any order.
//
// Every decoded value of every codec is an integer number of *units* of 2^kQuantumExponent, at most
// 2^kUnitBits of them; a sum weighs its messages with positive integers of total at most
// kWeightTotalMax. Hence
//
//   |Σ w_c · units_c| ≤ kWeightTotalMax · 2^kUnitBits = 2^10 · 2^51 = 2^61 < 2^63,
//
// no partial sum in any order overflows int64, and integer addition being associative, the result
// depends on the *set* of messages only.
#pragma once

#include <cstdint>

namespace skerry {

inline constexpr int kQuantumExponent = -40;  // one unit is 2^-40, about 9e-13
inline constexpr int kUnitBits = 51;
inline constexpr int64_t kWeightTotalMax = 1 << 10;
inline constexpr double kQuantum = 0x1p-40;

// The largest scale exponent of a block code with 8-bit integers: 128 · 2^(e − q) ≤ 2^kUnitBits.
inline constexpr int kScaleExponentMax = kUnitBits - 7 + kQuantumExponent;  // 4

// The largest magnitude an encoder accepts, the same for all codecs: 127 · 2^kScaleExponentMax. A
// parameter that moved so far in one round has diverged.
inline constexpr float kMagnitudeMax = 2032.0f;

// The same bound for 4-bit integers: 8 · 2^(e − q) ≤ 2^kUnitBits, and 7 · 2^e ≤ kMagnitudeMax.
inline constexpr int kInt4ExponentMax = kUnitBits - 3 + kQuantumExponent;  // 8

static_assert(127 * (1 << kScaleExponentMax) == 2032);
static_assert((kWeightTotalMax << kUnitBits) > 0, "the sum's bound fits int64");

}  // namespace skerry
