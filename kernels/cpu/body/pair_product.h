// What the small products of attention read on pairs of bf16, where neighbours along the depth lie
// together in 32 bits: c [rows, P] (+)= a [rows, depth] · b [depth, P].
//
// What is read along its rows (queries, scores) is pairs as it lies in memory. Denormals count as
// zero; sums are float32. Who multiplies: pair_tile.h, or amx_tile.h.
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
