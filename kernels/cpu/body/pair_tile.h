// The products of pair_product.h by AVX512-BF16, two multiply-adds a lane.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

constexpr int64_t kPairRows = kTileRows, kPairBlockRows = kBlockRows;

// Around all products of a call: nothing to prepare.
inline void BeginPairs() {}
inline void EndPairs() {}

inline __m512bh AsPairs(Lanes x) {
  return reinterpret_cast<__m512bh>(x);
}

template <int kRows>
void MultiplyPairTile(const PairProduct& p) {
  const int64_t a_row = p.a_row, c_row = p.c_row;
  float* c = p.c;
  Lanes sum[kRows][kPanelVectors];
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j)
      sum[r][j] = p.accumulate ? Load(c + r * c_row + j * kLanes) : Lanes{};
  }
  const Pair* a = static_cast<const Pair*>(p.a);
  const Pair* b = p.b;
  for (int64_t x = 0; x < p.depth; ++x, a += p.a_depth, b += kPanel) {
    Lanes column[kPanelVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) column[j] = Load(b + j * kLanes);
#pragma GCC unroll 14
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = Spread(a[r * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kPanelVectors; ++j)
        sum[r][j] = _mm512_dpbf16_ps(sum[r][j], AsPairs(value), AsPairs(column[j]));
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) Store(c + r * c_row + j * kLanes, sum[r][j]);
  }
}

// 1 ≤ rows ≤ kPairRows.
template <int kRows = kTileRows>
inline void MultiplyPairs(int64_t rows, const PairProduct& p) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyPairs<kRows - 1>(rows, p);
  }
  MultiplyPairTile<kRows>(p);
}

}  // namespace
}  // namespace skerry
