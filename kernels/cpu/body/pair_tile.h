// The small product of tile.h on pairs of bf16, two multiply-adds a lane: c [rows, P] (+)= a [rows,
// depth] · b [depth, P], where neighbours along the depth lie together in 32 bits.
//
// What is read along its rows (queries, scores) is pairs as it lies in memory. Denormals count as
// zero; sums are float32.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace skerry {
namespace {

// Two bf16 numbers; moved as bits, never computed with as a float.
typedef float Pair __attribute__((may_alias));

struct PairProduct {
  const void* a;
  int64_t a_row, a_depth;  // steps in pairs, between rows of a and along its depth
  int64_t depth;           // pairs
  const Pair* b;           // a panel: [depth][P] pairs
  float* c;
  int64_t c_row;
  bool accumulate;
};

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

// 1 ≤ rows ≤ kTileRows.
template <int kRows = kTileRows>
inline void MultiplyPairs(int64_t rows, const PairProduct& p) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyPairs<kRows - 1>(rows, p);
  }
  MultiplyPairTile<kRows>(p);
}

inline const Pair* PairsOf(const Bf16* x) {
  return reinterpret_cast<const Pair*>(x);
}

// Lane l: the pair of low[l] and high[l].
inline Lanes Interleaved(__m256i low, __m256i high) {
  const __m512i upper = _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_cvtepu16_epi32(low), upper));
}

// Packs x [rows, width] into panels of its columns, rows in pairs: [width/P][(rows + 1)/2][P],
// zeros behind the last row and column.
inline void PackColumnPairs(const Bf16* x, int64_t step, int64_t rows, int64_t width,
                            float* panels) {
  for (int64_t first = 0; first < width; first += kPanel) {
    for (int64_t r = 0; r < rows; r += 2, panels += kPanel) {
      for (int64_t l = 0; l < kPanel; l += kLanes) {
        const int64_t left = width - first - l;
        const __mmask16 inside = FirstOf(left >= kLanes ? kLanes : left > 0 ? left : 0);
        const Bf16* from = x + r * step + first + l;
        const __m256i low = _mm256_maskz_loadu_epi16(inside, from);
        const __m256i high =
            r + 1 < rows ? _mm256_maskz_loadu_epi16(inside, from + step) : _mm256_setzero_si256();
        Store(panels + l, Interleaved(low, high));
      }
    }
  }
}

// Panels of the rows of x, columns in pairs: [rows/P][width/2][P], zeros behind the last row.
inline void PackRowPairs(const Bf16* x, int64_t step, int64_t rows, int64_t width, float* panels) {
  PackRows(reinterpret_cast<const float*>(x), step / 2, rows, width / 2, panels);
}

}  // namespace
}  // namespace skerry
