// The small matrix product inside attention: c [rows, P] (+)= a [rows, depth] · b [depth, P].
//
// b is a *panel*: P = kPanel columns of a matrix, packed densely, one or two cache lines a row.
// The tile of c stays in registers over the whole depth. a is read by broadcast and may lie in any
// direction, so it is never packed.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

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

// Asks for b kAhead rows before they are read, where it comes from the second cache.
template <int kRows, int kAhead>
void MultiplyTile(const TileProduct& p) {
  const int64_t a_row = p.a_row, c_row = p.c_row;
  float* c = p.c;
  Lanes sum[kRows][kPanelVectors];
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j)
      sum[r][j] = p.accumulate ? Load(c + r * c_row + j * kLanes) : Lanes{};
  }
  const float* a = p.a;
  const float* b = p.b;
  for (int64_t x = 0; x < p.depth; ++x, a += p.a_depth, b += kPanel) {
    for (int j = 0; kAhead > 0 && j < kPanelVectors; ++j)
      __builtin_prefetch(b + kAhead * kPanel + j * kLanes);
    Lanes column[kPanelVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) column[j] = Load(b + j * kLanes);
#pragma GCC unroll 14
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = Spread(a[r * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < kPanelVectors; ++j) sum[r][j] = MultiplyAdd(value, column[j], sum[r][j]);
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) Store(c + r * c_row + j * kLanes, sum[r][j]);
  }
}

// 1 ≤ rows ≤ kTileRows.
template <int kAhead = 0, int kRows = kTileRows>
inline void Multiply(int64_t rows, const TileProduct& p) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return Multiply<kAhead, kRows - 1>(rows, p);
  }
  MultiplyTile<kRows, kAhead>(p);
}

// Rows of x become lanes: up to kLanes rows (none below 1) by `width` ≤ kLanes columns; column i
// goes to out + i · kPanel.
template <typename T>
inline void PackSquare(const T* x, int64_t step, int64_t rows, int64_t width, float* out) {
  Lanes square[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) {
    square[r] = r >= rows         ? Lanes{}
                : width == kLanes ? Load(x + r * step)
                                  : LoadSome(x + r * step, width);
  }
  TransposeSquare(square);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if (i < width) Store(out + i * kPanel, square[i]);
  }
}

// Packs x [rows, width] with row step `step` into panels of its columns: [width/P][rows][P], zeros
// behind the last column.
template <typename T>
inline void PackColumns(const T* x, int64_t step, int64_t rows, int64_t width, float* panels) {
  for (int64_t first = 0; first < width; first += kPanel) {
    const int64_t count = Smaller(kPanel, width - first);
    for (int64_t r = 0; r < rows; ++r, panels += kPanel) {
      const T* from = x + r * step + first;
      for (int64_t l = 0; l < kPanel; l += kLanes) {
        const int64_t left = count - l;
        Store(panels + l, left >= kLanes ? Load(from + l)
                          : left > 0     ? LoadSome(from + l, left)
                                         : Lanes{});
      }
    }
  }
}

// Packs xᵀ: panels of the rows of x, [rows/P][width][P], zeros behind the last row.
template <typename T>
inline void PackRows(const T* x, int64_t step, int64_t rows, int64_t width, float* panels) {
  for (int64_t first = 0; first < rows; first += kPanel, panels += kPanel * width) {
    for (int64_t l = 0; l < kPanel; l += kLanes) {
      const int64_t count = rows - first - l;
      const T* from = x + (first + l) * step;
      for (int64_t i = 0; i < width; i += kLanes)
        PackSquare(from + i, step, count, Smaller(kLanes, width - i), panels + i * kPanel + l);
    }
  }
}

// x [rows, width], dense or not, as float32: x itself, or a copy in `room` [rows, width].
struct FloatRows {
  const float* at;
  int64_t step;
};

inline FloatRows AsFloats(const float* x, int64_t step, int64_t, int64_t, float*) {
  return {x, step};
}

template <typename T>
inline FloatRows AsFloats(const T* x, int64_t step, int64_t rows, int64_t width, float* room) {
  for (int64_t r = 0; r < rows; ++r) {
    ForLanes(width, [&](int64_t i, auto load, auto store) {
      store(room + r * width + i, load(x + r * step + i));
    });
  }
  return {room, width};
}

}  // namespace
}  // namespace skerry
