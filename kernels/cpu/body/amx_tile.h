// The products of pair_product.h by AMX: a tile holds 16 rows of 16 pairs, and one instruction
// multiplies two of them.
//
// c is two tiles wide, as a panel is, and two high: four products for four tiles read. a that lies
// along its rows is read where it is; of one that lies along its depth 16 × 16 pairs at a time are
// turned first. A depth that is no multiple of 16 pairs ends in a pass of its own.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/tile_shapes.h"

namespace skerry {
namespace {

constexpr int64_t kTilePairs = 16;
constexpr int64_t kPairRows = 2 * kTilePairs, kPairBlockRows = 128;
static_assert(kPanel == 2 * kTilePairs && kLanes == kTilePairs);

// The instructions read memory behind the compiler's back (g++ 12 tells it nothing of what they
// read): what was written before is there after this.
inline void Settle() {
  asm volatile("" : : : "memory");
}

// What the thread's tiles are shaped for now; −1: not known.
thread_local int64_t tiles_shaped = -1;

// c is 0 and 1, below them 2 and 3; a 4, below it 5; b 6 and 7. With up to 16 rows nothing is
// below.
void ShapeTiles(int64_t rows, int64_t depth) {
  const int64_t wanted = rows * (kTilePairs + 1) + depth;
  if (wanted == tiles_shaped) return;
  tiles_shaped = wanted;
  TileShapes shapes;
  const auto above = static_cast<uint8_t>(Smaller(rows, kTilePairs));
  shapes.rows[0] = shapes.rows[1] = shapes.rows[4] = above;
  shapes.rows[2] = shapes.rows[3] = shapes.rows[5] = static_cast<uint8_t>(rows - above);
  if (rows == above) shapes.row_bytes[2] = shapes.row_bytes[3] = shapes.row_bytes[5] = 0;
  if (rows > above) shapes.row_bytes[5] = static_cast<uint16_t>(depth * sizeof(Pair));
  shapes.row_bytes[4] = static_cast<uint16_t>(depth * sizeof(Pair));
  shapes.rows[6] = shapes.rows[7] = static_cast<uint8_t>(depth);
  Settle();
  _tile_loadconfig(&shapes);
}

// Around all products of a call: others use the tiles of this thread, too.
void BeginPairs() {
  tiles_shaped = -1;
}
void EndPairs() {
  _tile_release();
}

// rows[i][j] and rows[j][i] change places.
inline void TurnSquare(__m512 (&rows)[kTilePairs]) {
  const auto low = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  const auto high = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  // Quarter q of fours[4 i + k] is column 4 q + k of rows 4 i to 4 i + 3.
  __m512 fours[kTilePairs];
#pragma GCC unroll 4
  for (int i = 0; i < kTilePairs; i += 4) {
    const __m512 even = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    const __m512 odd = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    const __m512 even2 = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]);
    const __m512 odd2 = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
    fours[i] = low(even, even2);
    fours[i + 1] = high(even, even2);
    fours[i + 2] = low(odd, odd2);
    fours[i + 3] = high(odd, odd2);
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const __m512 even = _mm512_shuffle_f32x4(fours[k], fours[4 + k], kEven);
    const __m512 odd = _mm512_shuffle_f32x4(fours[k], fours[4 + k], kOdd);
    const __m512 even2 = _mm512_shuffle_f32x4(fours[8 + k], fours[12 + k], kEven);
    const __m512 odd2 = _mm512_shuffle_f32x4(fours[8 + k], fours[12 + k], kOdd);
    rows[k] = _mm512_shuffle_f32x4(even, even2, kEven);
    rows[4 + k] = _mm512_shuffle_f32x4(odd, odd2, kEven);
    rows[8 + k] = _mm512_shuffle_f32x4(even, even2, kOdd);
    rows[12 + k] = _mm512_shuffle_f32x4(odd, odd2, kOdd);
  }
}

// to [column][row] = from [row][column] of so many rows and columns, each 16 at most; what is
// beyond them is zero.
void Turn(const Pair* from, int64_t step, int64_t rows, int64_t columns, Pair* to) {
  __m512 square[kTilePairs];
  const __mmask16 inside = FirstOf(columns);
#pragma GCC unroll 16
  for (int i = 0; i < kTilePairs; ++i)
    square[i] = i < rows ? _mm512_maskz_loadu_ps(inside, from + i * step) : _mm512_setzero_ps();
  TurnSquare(square);
#pragma GCC unroll 16
  for (int i = 0; i < kTilePairs; ++i) Store(to + i * kTilePairs, square[i]);
}

// Of the depth [begin, end), `step` pairs at a time, 16 at most.
void MultiplyPart(int64_t rows, const PairProduct& p, int64_t begin, int64_t end, int64_t step,
                  bool accumulate) {
  constexpr int64_t kPanelBytes = kPanel * sizeof(float), kTileBytes = kTilePairs * sizeof(Pair);
  const int64_t c_bytes = p.c_row * static_cast<int64_t>(sizeof(float));
  float* const below = p.c + kTilePairs * p.c_row;
  const bool is_high = rows > kTilePairs, turns = p.a_depth != 1;
  ShapeTiles(rows, step);
  Settle();
  if (accumulate) {
    _tile_loadd(0, p.c, c_bytes);
    _tile_loadd(1, p.c + kTilePairs, c_bytes);
    if (is_high) _tile_loadd(2, below, c_bytes);
    if (is_high) _tile_loadd(3, below + kTilePairs, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if (is_high) _tile_zero(2);
    if (is_high) _tile_zero(3);
  }
  alignas(64) Pair turned[kPairRows * kTilePairs];
  const auto* first = static_cast<const Pair*>(p.a);
  const int64_t a_row = turns ? kTilePairs : p.a_row;
  const int64_t a_bytes = turns ? kTileBytes : p.a_row * static_cast<int64_t>(sizeof(Pair));
  for (int64_t x = begin; x < end; x += step) {
    const Pair* a = first + x;
    if (turns) {
      const Pair* from = first + x * p.a_depth;
      Turn(from, p.a_depth, step, Smaller(rows, kTilePairs), turned);
      if (is_high)
        Turn(from + kTilePairs, p.a_depth, step, rows - kTilePairs, turned + kTilePairs * a_row);
      Settle();
      a = turned;
    }
    _tile_loadd(6, p.b + x * kPanel, kPanelBytes);
    _tile_loadd(7, p.b + x * kPanel + kTilePairs, kPanelBytes);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!is_high) continue;
    _tile_loadd(5, a + kTilePairs * a_row, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, p.c, c_bytes);
  _tile_stored(1, p.c + kTilePairs, c_bytes);
  if (is_high) _tile_stored(2, below, c_bytes);
  if (is_high) _tile_stored(3, below + kTilePairs, c_bytes);
}

// 1 ≤ rows ≤ kPairRows.
void MultiplyPairs(int64_t rows, const PairProduct& p) {
  const int64_t left = p.depth % kTilePairs, whole = p.depth - left;
  if (whole > 0) MultiplyPart(rows, p, 0, whole, kTilePairs, p.accumulate);
  if (left > 0) MultiplyPart(rows, p, whole, p.depth, left, p.accumulate || whole > 0);
}

}  // namespace
}  // namespace skerry
