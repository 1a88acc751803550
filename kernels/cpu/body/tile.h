// The small matrix product inside attention: c [rows, 16] (+)= a [rows, depth] · b [depth, 16].
//
// b is a *panel*: 16 columns of a matrix, packed densely so that one row of it is one cache line.
// The tile of c stays in registers over the whole depth. a is read by broadcast and may lie in any
// direction, so it is never packed.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

constexpr int64_t kPanel = 16;
constexpr int kPanelVectors = kPanel / kLanes;

constexpr int64_t Panels(int64_t columns) {
  return (columns + kPanel - 1) / kPanel;
}

inline int64_t Smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

struct TileProduct {
  const float* a;
  int64_t a_row, a_depth;  // steps between rows of a, and along its depth
  int64_t depth;
  const float* b;
  float* c;
  int64_t c_row;
  bool accumulate;
};

template <int kRows>
void MultiplyTile(const TileProduct& p) {
  const int64_t a_row = p.a_row, c_row = p.c_row;
  float* c = p.c;
  Lanes sum[kRows][kPanelVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j)
      sum[r][j] = p.accumulate ? Load(c + r * c_row + j * kLanes) : Lanes{};
  }
  const float* a = p.a;
  const float* b = p.b;
  for (int64_t x = 0; x < p.depth; ++x, a += p.a_depth, b += kPanel) {
    Lanes column[kPanelVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) column[j] = Load(b + j * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = Spread(a[r * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kPanelVectors; ++j) sum[r][j] = MultiplyAdd(value, column[j], sum[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) Store(c + r * c_row + j * kLanes, sum[r][j]);
  }
}

// 1 ≤ rows ≤ kTileRows.
template <int kRows = kTileRows>
inline void Multiply(int64_t rows, const TileProduct& p) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return Multiply<kRows - 1>(rows, p);
  }
  MultiplyTile<kRows>(p);
}

// Packs x [rows, width] with row step `step` into panels of its columns: [width/16][rows][16],
// zeros behind the last column.
inline void PackColumns(const float* x, int64_t step, int64_t rows, int64_t width, float* panels) {
  for (int64_t first = 0; first < width; first += kPanel) {
    const int64_t count = Smaller(kPanel, width - first);
    for (int64_t r = 0; r < rows; ++r, panels += kPanel) {
      for (int64_t l = 0; l < count; ++l) panels[l] = x[r * step + first + l];
      for (int64_t l = count; l < kPanel; ++l) panels[l] = 0;
    }
  }
}

// Packs xᵀ: panels of the rows of x, [rows/16][width][16], zeros behind the last row.
inline void PackRows(const float* x, int64_t step, int64_t rows, int64_t width, float* panels) {
  for (int64_t first = 0; first < rows; first += kPanel, panels += kPanel * width) {
    for (int64_t l = 0; l < kPanel; ++l) {
      const bool inside = first + l < rows;
      const float* row = x + (first + l) * step;
      for (int64_t i = 0; i < width; ++i) panels[i * kPanel + l] = inside ? row[i] : 0;
    }
  }
}

}  // namespace
}  // namespace skerry
