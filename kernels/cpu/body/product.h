// The large matrix product: c [m, n] (+)= a [m, k] · b [k, n], blocked for the caches after Goto &
// van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008,
// section 4).
//
// b comes packed into panels (tile.h), kProductTiles tiles of rows of `a` are packed at a time.
// Where that is many, they stay in the second cache, and kProductDepth rows of a panel in the first
// while all of them are multiplied with it. Where it is one, it stays in the first cache while it
// is multiplied with all panels, which then belong in the second. The order of every sum is that of
// k, whatever m, n, and the cuts of both are.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

constexpr int64_t kProductRows = kProductTiles * kTileRows;
constexpr bool kPanelsInCache = kProductTiles == 1;
constexpr int kPanelRowsAhead = kPanelsInCache ? 12 : 0;
static_assert(kTileRows <= kLanes, "a column of a tile is stored as one vector");

// Floats. Columns of tiles are stored as whole vectors, the last one beyond its end.
constexpr int64_t kProductScratch = kProductRows * kProductDepth + kLanes;

// Packs rows of `a`, from row `first` on, to [rows/R][depth][R], R = kTileRows, zeros behind the
// last row. What a vector has beyond R the next one overwrites.
inline void PackTiles(const ProductFactor& a, int64_t first, int64_t rows, int64_t begin,
                      int64_t depth, float* tiles) {
  const auto* values = static_cast<const float*>(a.values);
  for (; rows > 0; first += kTileRows, rows -= kTileRows) {
    if (a.transposed) {
      const float* from = values + begin * a.step + first;
      for (int64_t x = 0; x < depth; ++x, from += a.step, tiles += kTileRows)
        Store(tiles, rows >= kLanes ? Load(from) : LoadSome(from, rows));
      continue;
    }
    const float* from = values + first * a.step + begin;
    for (int64_t x = 0; x < depth; x += kLanes, from += kLanes) {
      const int64_t width = Smaller(kLanes, depth - x);
      Lanes square[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) {
        square[r] = r >= kTileRows || r >= rows ? Lanes{}
                    : width == kLanes           ? Load(from + r * a.step)
                                                : LoadSome(from + r * a.step, width);
      }
      TransposeSquare(square);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (i < width) Store(tiles + i * kTileRows, square[i]);
      }
      tiles += width * kTileRows;
    }
  }
}

// A tile at the right edge of c: in a whole one beside it.
inline void MultiplyAtEdge(int64_t rows, int64_t columns, const TileProduct& p) {
  float whole[kTileRows * kPanel] = {};
  for (int64_t r = 0; p.accumulate && r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) whole[r * kPanel + j] = p.c[r * p.c_row + j];
  }
  TileProduct beside = p;
  beside.c = whole;
  beside.c_row = kPanel;
  Multiply(rows, beside);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) p.c[r * p.c_row + j] = whole[r * kPanel + j];
  }
}

void PackFactor(const ProductFactor& b, int64_t columns, int64_t depth, float* panels) {
  const auto* values = static_cast<const float*>(b.values);
  if (b.transposed) return PackRows(values, b.step, columns, depth, panels);
  PackColumns(values, b.step, depth, columns, panels);
}

// A tile's rows of c lie in as many pages: they are asked for while the tile before is multiplied.
inline void FetchForLater(const float* c, int64_t c_row, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < kPanel; j += 16) __builtin_prefetch(c + r * c_row + j, 1);
  }
}

// A share of the next panel.
inline void FetchPanel(const float* panel, int64_t floats) {
  for (int64_t i = 0; i < floats; i += 16) __builtin_prefetch(panel + i, 0, 2);
}

void MultiplyPacked(const ProductArgs& p) {
  const int64_t even = (p.depth + kProductDepth - 1) / kProductDepth;
  const int64_t step = (p.depth + even - 1) / even;
  for (int64_t begin = 0; begin < p.depth; begin += step) {
    const int64_t depth = Smaller(step, p.depth - begin);
    for (int64_t first = 0; first < p.rows; first += kProductRows) {
      const int64_t rows = Smaller(kProductRows, p.rows - first);
      const int64_t share = depth * kPanel / ((rows + kTileRows - 1) / kTileRows);
      PackTiles(p.a, first, rows, begin, depth, p.scratch);
      float* c = static_cast<float*>(p.c) + first * p.c_step;
      for (int64_t column = 0; column < p.columns; column += kPanel) {
        const float* panel = p.panels + column * p.depth + begin * kPanel;
        const float* later = panel + (column + kPanel < p.columns ? p.depth * kPanel : 0);
        for (int64_t r = 0; r < rows; r += kTileRows) {
          const int64_t tile_rows = Smaller(kTileRows, rows - r);
          const TileProduct tile = {
              p.scratch + r * depth,     1,        kTileRows,          depth, panel,
              c + r * p.c_step + column, p.c_step, p.adds || begin > 0};
          if (kPanelsInCache) {
            FetchForLater(tile.c + kPanel, p.c_step, tile_rows);
          } else if (r + kTileRows < rows) {
            FetchForLater(tile.c + kTileRows * p.c_step, p.c_step,
                          Smaller(kTileRows, rows - r - kTileRows));
            FetchPanel(later + r / kTileRows * share, share);
          }
          if (column + kPanel <= p.columns) {
            Multiply<kPanelRowsAhead>(tile_rows, tile);
          } else {
            MultiplyAtEdge(tile_rows, p.columns - column, tile);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace skerry
