// Arithmetic on lanes: loads, sums, maxima, the exponential. Included after a lanes header, into a
// kernel file (cpu/kernel_table.h says why everything here has internal linkage).
#pragma once

#include <cstdint>
#include <utility>

namespace skerry {
namespace {

inline Lanes Load(const float* p) {
  return *reinterpret_cast<const UnalignedLanes*>(p);
}

inline void Store(float* p, Lanes x) {
  *reinterpret_cast<UnalignedLanes*>(p) = x;
}

// The first `count` < kLanes values, zeros behind them. A lanes header with masks has its own.
#ifndef SKERRY_LANES_HAVE_MASKS
inline Lanes LoadSome(const float* p, int64_t count) {
  float values[kLanes] = {};
  for (int64_t l = 0; l < count; ++l) values[l] = p[l];
  return Load(values);
}

inline void StoreSome(float* p, Lanes x, int64_t count) {
  for (int64_t l = 0; l < count; ++l) p[l] = x[l];
}
#endif

// Calls body(at, load, store) for [0, n): whole vectors, then one partial one. Every element passes
// through the same instructions, wherever it stands.
template <typename Body>
[[gnu::always_inline]] inline void ForLanes(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    body(
        i, [](const auto* p) { return Load(p); }, [](auto* p, Lanes x) { Store(p, x); });
  const int64_t rest = n - i;
  if (rest == 0) return;
  body(
      i, [rest](const auto* p) { return LoadSome(p, rest); },
      [rest](auto* p, Lanes x) { StoreSome(p, x, rest); });
}

// Where arithmetic keeps a core from running far enough ahead of its loads, memory has to be asked
// early: some way ahead, or, where a row is read in several places at once, in the next row.
inline void FetchAhead(const void* p) {
  constexpr int64_t kBytesAhead = 4096;
  __builtin_prefetch(static_cast<const char*>(p) + kBytesAhead);
}
template <typename T>
[[gnu::always_inline]] inline void FetchNextRow(const T* p, int64_t step) {
  __builtin_prefetch(p + step);
}

// The lanes turned by `by` places.
template <int by>
inline Lanes Turned(Lanes x) {
  return [x]<int... lane>(std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(x, x, (lane + by) % kLanes...);
  }
  (std::make_integer_sequence<int, kLanes>());
}

// One step of a transposition: swaps blocks of `size` lanes across the diagonal between rows that
// are `size` apart.
template <int size>
inline void SwapBlocks(Lanes& low, Lanes& high) {
  const auto shuffle = [&]<int... lane>(std::integer_sequence<int, lane...>) {
    const Lanes a = low, b = high;
    low = __builtin_shufflevector(a, b, ((lane / size) % 2 == 0 ? lane : lane - size + kLanes)...);
    high = __builtin_shufflevector(a, b, ((lane / size) % 2 == 0 ? lane + size : lane + kLanes)...);
  };
  shuffle(std::make_integer_sequence<int, kLanes>());
}

template <int size>
inline void TransposeFrom(Lanes* rows) {
  if constexpr (size < kLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < kLanes; ++r) {
      if ((r / size) % 2 == 0) SwapBlocks<size>(rows[r], rows[r + size]);
    }
    TransposeFrom<2 * size>(rows);
  }
}

// rows[i][j] and rows[j][i] change places.
inline void TransposeSquare(Lanes* rows) {
  TransposeFrom<1>(rows);
}

// Pairwise, always in the same order.
inline float SumOf(Lanes x) {
  if constexpr (kLanes > 8) x += Turned<8>(x);
  if constexpr (kLanes > 4) x += Turned<4>(x);
  x += Turned<2>(x);
  x += Turned<1>(x);
  return x[0];
}

// NaN stays NaN: the comparison is false. A lanes header with instructions for it has its own.
#ifndef SKERRY_LANES_HAVE_EXTREMES
inline Lanes Larger(Lanes x, Lanes bound) {
  return bound > x ? bound : x;
}

inline Lanes Lower(Lanes x, Lanes bound) {
  return bound < x ? bound : x;
}
#endif

inline float LargestOf(Lanes x) {
  if constexpr (kLanes > 8) x = Larger(x, Turned<8>(x));
  if constexpr (kLanes > 4) x = Larger(x, Turned<4>(x));
  x = Larger(x, Turned<2>(x));
  x = Larger(x, Turned<1>(x));
  return x[0];
}

// x in the first `count` lanes (all, or none, if it lies outside), `other` in the rest.
inline Lanes FirstLanes(Lanes x, int64_t count, Lanes other) {
  Lanes index;
  for (int l = 0; l < kLanes; ++l) index[l] = static_cast<float>(l);
  return index < Spread(static_cast<float>(count)) ? x : other;
}

constexpr float kExpLow = -87.33f;  // e^x is a normal float32 from here …
constexpr float kExpHigh = 88.02f;  // … to here, 2^127
constexpr float kHuge = 3.0e38f;  // stands for −∞ in masks, where −∞ − −∞ would be NaN

// e^r for |r| ≤ ln 2 / 2, polynomial of Cephes' expf.
[[gnu::always_inline]] inline Lanes ExpNearZero(Lanes r) {
  Lanes y = Spread(1.9875691500e-4f);
  y = MultiplyAdd(y, r, Spread(1.3981999507e-3f));
  y = MultiplyAdd(y, r, Spread(8.3334519073e-3f));
  y = MultiplyAdd(y, r, Spread(4.1665795894e-2f));
  y = MultiplyAdd(y, r, Spread(1.6666665459e-1f));
  y = MultiplyAdd(y, r, Spread(5.0000001201e-1f));
  return MultiplyAdd(y, r * r, r) + 1.0f;
}

constexpr float kLog2E = 1.44269504f;
// ln 2 in two pieces, so that n·ln 2 is taken off exactly (Cody, Waite 1980).
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

// e^x for x ≤ kExpHigh, within 2 units in the last place; that of kExpLow below it, NaN for NaN.
// Larger x give anything.
//
// x = n·ln 2 + r with |r| ≤ ln 2 / 2. A lanes header that can scale by 2ⁿ rounds n, too. Nothing
// underflows on the way: masked scores are far below kExpLow, and each denormal takes an Intel
// processor more than a hundred cycles.
[[gnu::always_inline]] inline Lanes ExpOrLeast(Lanes x) {
  const Lanes bounded = Larger(x, Spread(kExpLow));
#ifdef SKERRY_LANES_HAVE_SCALE
  const Lanes n = RoundToInteger(bounded * kLog2E);
  Lanes r = MultiplyAdd(n, Spread(-kLn2High), bounded);
  r = MultiplyAdd(n, Spread(-kLn2Low), r);
  return ScaleByPowerOfTwo(ExpNearZero(r), n);
#else
  constexpr float kRoundToInt = 0x1.8p23f;
  const Lanes shifted = MultiplyAdd(bounded, Spread(kLog2E), Spread(kRoundToInt));
  const Lanes n = shifted - kRoundToInt;
  Lanes r = MultiplyAdd(n, Spread(-kLn2High), bounded);
  r = MultiplyAdd(n, Spread(-kLn2Low), r);
  // n stands in the low bits of `shifted`, so this moves n + 127 into the exponent's place.
  const UnsignedLanes power = (reinterpret_cast<UnsignedLanes>(shifted) + 127u) << 23;
  return ExpNearZero(r) * reinterpret_cast<Lanes>(power);
#endif
}

// The same, but 0 below kExpLow.
[[gnu::always_inline]] inline Lanes Exp(Lanes x) {
  const Lanes y = ExpOrLeast(x);
  return x < Spread(kExpLow) ? Lanes{} : y;
}

}  // namespace
}  // namespace skerry
