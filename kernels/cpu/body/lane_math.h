// Arithmetic on lanes: loads, sums, maxima, the exponential. Included after a lanes header, into a
// kernel file (cpu/kernel_table.h says why everything here has internal linkage).
#pragma once

#include <cstdint>

namespace skerry {
namespace {

inline Lanes Load(const float* p) {
  return *reinterpret_cast<const UnalignedLanes*>(p);
}

inline void Store(float* p, Lanes x) {
  *reinterpret_cast<UnalignedLanes*>(p) = x;
}

inline Lanes Spread(float x) {
  return Lanes{} + x;
}

// The first `count` < kLanes values, zeros behind them.
inline Lanes LoadSome(const float* p, int64_t count) {
  float values[kLanes] = {};
  for (int64_t l = 0; l < count; ++l) values[l] = p[l];
  return Load(values);
}

inline void StoreSome(float* p, Lanes x, int64_t count) {
  for (int64_t l = 0; l < count; ++l) p[l] = x[l];
}

// Calls body(at, load, store) for [0, n): whole vectors, then one partial one. Every element passes
// through the same instructions, wherever it stands.
template <typename Body>
inline void ForLanes(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    body(
        i, [](const float* p) { return Load(p); }, [](float* p, Lanes x) { Store(p, x); });
  const int64_t rest = n - i;
  if (rest == 0) return;
  body(
      i, [rest](const float* p) { return LoadSome(p, rest); },
      [rest](float* p, Lanes x) { StoreSome(p, x, rest); });
}

// In order of the lanes.
inline float SumOf(Lanes x) {
  float sum = x[0];
  for (int l = 1; l < kLanes; ++l) sum += x[l];
  return sum;
}

// NaN stays NaN: the comparison is false.
inline Lanes Larger(Lanes x, Lanes bound) {
  return bound > x ? bound : x;
}

inline float LargestOf(Lanes x) {
  float top = x[0];
  for (int l = 1; l < kLanes; ++l) top = top > x[l] ? top : x[l];
  return top;
}

constexpr float kExpLow = -87.33f;  // e^x is a normal float32 from here …
constexpr float kExpHigh = 88.72f;  // … to here
constexpr float kHuge = 3.0e38f;  // stands for −∞ in masks, where −∞ − −∞ would be NaN
constexpr float kRoundToInt = 0x1.8p23f;

// e^x within 2 units in the last place; 0 below kExpLow, +∞ above kExpHigh, NaN for NaN.
//
// x = n·ln 2 + r with |r| ≤ ln 2 / 2; ln 2 in two pieces, so that r is exact (Cody, Waite 1980);
// polynomial of Cephes' expf.
inline Lanes Exp(Lanes x) {
  const Lanes low = Spread(kExpLow), high = Spread(kExpHigh);
  const Lanes shifted = MultiplyAdd(x, Spread(1.44269504f), Spread(kRoundToInt));
  const Lanes n = shifted - kRoundToInt;
  Lanes r = MultiplyAdd(n, Spread(-0.693359375f), x);
  r = MultiplyAdd(n, Spread(2.12194440e-4f), r);
  Lanes y = Spread(1.9875691500e-4f);
  y = MultiplyAdd(y, r, Spread(1.3981999507e-3f));
  y = MultiplyAdd(y, r, Spread(8.3334519073e-3f));
  y = MultiplyAdd(y, r, Spread(4.1665795894e-2f));
  y = MultiplyAdd(y, r, Spread(1.6666665459e-1f));
  y = MultiplyAdd(y, r, Spread(5.0000001201e-1f));
  y = MultiplyAdd(y, r * r, r) + 1.0f;
  // n sits in the low bits of `shifted`; halves, because 2^128 is no float32.
  const IntLanes exponent = reinterpret_cast<IntLanes>(shifted) - 0x4B400000;
  const IntLanes first = exponent >> 1, second = exponent - first;
  y *= reinterpret_cast<Lanes>((first + 127) << 23);
  y *= reinterpret_cast<Lanes>((second + 127) << 23);
  y = x < low ? Lanes{} : y;
  return x > high ? Spread(__builtin_inff()) : y;
}

}  // namespace
}  // namespace skerry
