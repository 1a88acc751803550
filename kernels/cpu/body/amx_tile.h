// The products of pair_product.h by AMX: a tile holds 16 rows of 16 pairs, and one instruction
// multiplies two of them.
//
// c is two tiles wide, as a panel is. a that lies along its rows is read where it is; of one that
// lies along its depth 16 × 16 pairs at a time are turned first.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/tile_shapes.h"

namespace skerry {
namespace {

constexpr int64_t kTilePairs = 16;
static_assert(kPanel == 2 * kTilePairs && kLanes == kTilePairs && kTileRows <= kTilePairs);

// The instructions read memory behind the compiler's back (g++ 12 tells it nothing of what they
// read): what was written before is there after this.
inline void Settle() {
  asm volatile("" : : : "memory");
}

// What the thread's tiles are shaped for now; −1: not known.
thread_local int64_t tiles_shaped = -1;

// Tiles by number: c 0 and 1; whole steps of the depth 2 (a), 3 and 4 (b); what is left of it 5
// (a), 6 and 7 (b).
void ShapeTiles(int64_t rows, int64_t left) {
  const int64_t wanted = rows * kTilePairs + left;
  if (wanted == tiles_shaped) return;
  tiles_shaped = wanted;
  TileShapes shapes;
  shapes.rows[0] = shapes.rows[1] = shapes.rows[2] = shapes.rows[5] = static_cast<uint8_t>(rows);
  if (left > 0) {
    shapes.row_bytes[5] = static_cast<uint16_t>(left * sizeof(Pair));
    shapes.rows[6] = shapes.rows[7] = static_cast<uint8_t>(left);
  }
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

// to [column][row] = from [row][column] of so many rows and columns, each 16 at most; what is
// beyond them is zero.
void Turn(const Pair* from, int64_t step, int64_t rows, int64_t columns, Pair* to) {
  __m512 a[16], b[16];
  const __mmask16 inside = FirstOf(columns);
  for (int i = 0; i < 16; ++i)
    a[i] = i < rows ? _mm512_maskz_loadu_ps(inside, from + i * step) : _mm512_setzero_ps();
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  const auto low = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  const auto high = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  for (int i = 0; i < 16; i += 4) {
    a[i] = low(b[i], b[i + 2]);
    a[i + 1] = high(b[i], b[i + 2]);
    a[i + 2] = low(b[i + 1], b[i + 3]);
    a[i + 3] = high(b[i + 1], b[i + 3]);
  }
  // Quarter q of a[4 i + k] is column 4 q + k of rows 4 i to 4 i + 3.
  constexpr int kEven = 0x88, kOdd = 0xdd;
  for (int k = 0; k < 4; ++k) {
    const __m512 even = _mm512_shuffle_f32x4(a[k], a[4 + k], kEven);
    const __m512 odd = _mm512_shuffle_f32x4(a[k], a[4 + k], kOdd);
    const __m512 even2 = _mm512_shuffle_f32x4(a[8 + k], a[12 + k], kEven);
    const __m512 odd2 = _mm512_shuffle_f32x4(a[8 + k], a[12 + k], kOdd);
    Store(to + k * kTilePairs, _mm512_shuffle_f32x4(even, even2, kEven));
    Store(to + (4 + k) * kTilePairs, _mm512_shuffle_f32x4(odd, odd2, kEven));
    Store(to + (8 + k) * kTilePairs, _mm512_shuffle_f32x4(even, even2, kOdd));
    Store(to + (12 + k) * kTilePairs, _mm512_shuffle_f32x4(odd, odd2, kOdd));
  }
}

// 1 ≤ rows ≤ kTileRows.
void MultiplyPairs(int64_t rows, const PairProduct& p) {
  const int64_t left = p.depth % kTilePairs, whole = p.depth - left;
  constexpr int64_t kPanelBytes = kPanel * sizeof(float), kTileBytes = kTilePairs * sizeof(Pair);
  const int64_t c_bytes = p.c_row * static_cast<int64_t>(sizeof(float));
  ShapeTiles(rows, left);
  Settle();
  if (p.accumulate) {
    _tile_loadd(0, p.c, c_bytes);
    _tile_loadd(1, p.c + kTilePairs, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  const bool turns = p.a_depth != 1;
  alignas(64) Pair turned[kTilePairs * kTilePairs];
  const auto* a = static_cast<const Pair*>(p.a);
  const int64_t a_bytes = turns ? kTileBytes : p.a_row * static_cast<int64_t>(sizeof(Pair));
  const auto a_at = [&](int64_t x, int64_t depth) {
    if (!turns) return a + x;
    Turn(a + x * p.a_depth, p.a_depth, depth, rows, turned);
    Settle();
    return static_cast<const Pair*>(turned);
  };
  for (int64_t x = 0; x < whole; x += kTilePairs) {
    _tile_loadd(2, a_at(x, kTilePairs), a_bytes);
    _tile_loadd(3, p.b + x * kPanel, kPanelBytes);
    _tile_loadd(4, p.b + x * kPanel + kTilePairs, kPanelBytes);
    _tile_dpbf16ps(0, 2, 3);
    _tile_dpbf16ps(1, 2, 4);
  }
  if (left > 0) {
    _tile_loadd(5, a_at(whole, left), a_bytes);
    _tile_loadd(6, p.b + whole * kPanel, kPanelBytes);
    _tile_loadd(7, p.b + whole * kPanel + kTilePairs, kPanelBytes);
    _tile_dpbf16ps(0, 5, 6);
    _tile_dpbf16ps(1, 5, 7);
  }
  _tile_stored(0, p.c, c_bytes);
  _tile_stored(1, p.c + kTilePairs, c_bytes);
}

}  // namespace
}  // namespace skerry
