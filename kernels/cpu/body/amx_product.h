// The large matrix product of bf16 by AMX: c [m, n] (+)= a [m, k] · b [k, n], sums in float32.
//
// b comes packed into panels of pairs (pair_product.h). Rows of `a` are packed into tiles, of
// kPairDepth of k at a time, so that two tiles of rows stay in the first cache while the panels
// stream past them from the second. c is two tiles wide and two high, as in amx_tile.h, and all
// tiles are whole: what lies beyond a matrix is packed as zeros.
//
// Sums that become bf16 wait in scratch, and are rounded while the next tiles are multiplied. The
// order of every sum is that of k, whatever m, n, and the cuts of both are.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

constexpr int64_t kTileDepth = 2 * kTilePairs;             // of k in a tile
constexpr int64_t kTileNumbers = kTilePairs * kTileDepth;  // bf16
constexpr int64_t kPairDepth = 512;
// A transposed `a` is read along its rows, a few of whose cache lines should be used at a time.
constexpr int64_t kPairRowsPacked = 4 * kPairRows;
constexpr int64_t kPackedFloats = kPairRowsPacked * kPairDepth / 2;
constexpr int64_t kSumsFloats = kPairRows * kProductColumns;

constexpr int64_t WholeTiles(int64_t depth) {
  return (depth + kTileDepth - 1) / kTileDepth;
}

inline __mmask32 FirstNumbers(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : count <= 0 ? 0 : (__mmask32{1} << count) - 1;
}

inline __m512i LoadNumbers(const Bf16* from, int64_t count) {
  return _mm512_maskz_loadu_epi16(FirstNumbers(count), from);
}

// Rows of a, `rows` of them by `depth`, to [rows/32][depth/32][2][16][32].
void PackRowTiles(const Bf16* a, int64_t step, int64_t rows, int64_t depth, Bf16* tiles) {
  const int64_t across = WholeTiles(depth) * 2 * kTileNumbers;
  for (int64_t r = 0; r < (rows + kPairRows - 1) / kPairRows * kPairRows; ++r) {
    Bf16* to = tiles + r / kPairRows * across + r % kPairRows * kTileDepth;
    for (int64_t x = 0; x < depth; x += kTileDepth, to += 2 * kTileNumbers)
      _mm512_store_si512(to, LoadNumbers(a + r * step + x, r < rows ? depth - x : 0));
  }
}

// The same of a transposed `a`, of which a column lies along `rows`.
void PackColumnTiles(const Bf16* a, int64_t step, int64_t rows, int64_t depth, Bf16* tiles) {
  const int64_t across = WholeTiles(depth) * 2 * kTileNumbers;
  for (int64_t x = 0; x < depth; x += kTileDepth, tiles += 2 * kTileNumbers) {
    for (int64_t r = 0; r < rows; r += kPairRows) {
      // Pairs of rows 0 to 3, 8 to 11, 16 to 19 and 24 to 27, and of those between.
      __m512 pairs[kTilePairs], between[kTilePairs];
#pragma GCC unroll 16
      for (int i = 0; i < kTilePairs; ++i) {
        const Bf16* from = a + (x + 2 * i) * step + r;
        const __m512i one = LoadNumbers(from, x + 2 * i < depth ? rows - r : 0);
        const __m512i other = LoadNumbers(from + step, x + 2 * i + 1 < depth ? rows - r : 0);
        pairs[i] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(one, other));
        between[i] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(one, other));
      }
      float* to = reinterpret_cast<float*>(tiles + r / kPairRows * across);
      TurnSquare(pairs);
#pragma GCC unroll 16
      for (int i = 0; i < kTilePairs; ++i) Store(to + (i / 4 * 8 + i % 4) * kTilePairs, pairs[i]);
      TurnSquare(between);
#pragma GCC unroll 16
      for (int i = 0; i < kTilePairs; ++i)
        Store(to + (i / 4 * 8 + 4 + i % 4) * kTilePairs, between[i]);
    }
  }
}

// The panel of b whose columns lie along its rows.
void PackPanelOfRows(const Bf16* b, int64_t step, int64_t columns, int64_t depth, float* panel) {
  for (int64_t x = 0; x < depth; x += kTileDepth, panel += kTilePairs * kPanel) {
    for (int64_t half = 0; half < kPanel; half += kTilePairs) {
      __m512 square[kTilePairs];
#pragma GCC unroll 16
      for (int i = 0; i < kTilePairs; ++i) {
        const bool inside = half + i < columns;
        square[i] =
            _mm512_castsi512_ps(LoadNumbers(b + (half + i) * step + x, inside ? depth - x : 0));
      }
      TurnSquare(square);
#pragma GCC unroll 16
      for (int i = 0; i < kTilePairs; ++i) Store(panel + i * kPanel + half, square[i]);
    }
  }
}

void PackPairFactor(const ProductFactor& b, int64_t columns, int64_t depth, float* panels) {
  const auto* values = static_cast<const Bf16*>(b.values);
  const int64_t pairs = WholeTiles(depth) * kTilePairs, written = (depth + 1) / 2;
  for (int64_t first = 0; first < columns; first += kPanel, panels += pairs * kPanel) {
    const int64_t width = Smaller(kPanel, columns - first);
    if (b.transposed) {
      PackPanelOfRows(values + first * b.step, b.step, width, depth, panels);
      continue;
    }
    PackColumnPairs(values + first, b.step, depth, width, panels);
    for (int64_t i = written * kPanel; i < pairs * kPanel; i += kLanes) Store(panels + i, Lanes{});
  }
}

// Sums of two by two tiles on their way to c, a row at a time.
struct Sums {
  const float* from = nullptr;
  int64_t rows = 0, columns = 0;  // 32 at most
  void* c = nullptr;
  int64_t c_step = 0;
  DType type = DType::kBfloat16;
  int64_t row = 0;

  void Move(int64_t count) {
    for (; count > 0 && row < rows; --count, ++row) {
      const Lanes low = Load(from + row * kPanel), high = Load(from + row * kPanel + kLanes);
      if (type == DType::kBfloat16) {
        const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
        _mm512_mask_storeu_epi16(static_cast<Bf16*>(c) + row * c_step, FirstNumbers(columns), both);
      } else {
        float* to = static_cast<float*>(c) + row * c_step;
        StoreSome(to, low, Smaller(columns, kLanes));
        if (columns > kLanes) StoreSome(to + kLanes, high, columns - kLanes);
      }
    }
  }
};

struct TilesProduct {
  const Bf16* a;   // packed tiles, two for each kTileDepth
  const float* b;  // a panel
  int64_t depth;   // whole tiles
  float* sums;     // [32][sums_step]
  int64_t sums_step;
  bool accumulate;
  const char* c_after;  // asked for: where the next tiles' sums will go, 32 rows of so many lines
  int64_t c_bytes, lines;
};

// Meanwhile `late` goes where it belongs.
void MultiplyTiles(const TilesProduct& p, Sums& late) {
  constexpr int64_t kPanelBytes = kPanel * sizeof(float), kTileBytes = kTilePairs * sizeof(Pair);
  const int64_t bytes = p.sums_step * static_cast<int64_t>(sizeof(float));
  float* const below = p.sums + kTilePairs * p.sums_step;
  Settle();
  if (p.accumulate) {
    _tile_loadd(0, p.sums, bytes);
    _tile_loadd(1, p.sums + kTilePairs, bytes);
    _tile_loadd(2, below, bytes);
    _tile_loadd(3, below + kTilePairs, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const Bf16* a = p.a;
  const float* b = p.b;
  const char* after = p.c_after;
  const int64_t rows = (kPairRows + p.depth - 1) / p.depth;  // moved beside each product
  for (int64_t x = 0; x < p.depth; ++x, a += 2 * kTileNumbers, b += kTilePairs * kPanel) {
    // Panels pass by: they need not stay in the first cache.
    _tile_stream_loadd(6, b, kPanelBytes);
    _tile_loadd(4, a, kTileBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, b + kTilePairs, kPanelBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileNumbers, kTileBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    for (int64_t r = x * rows; r < (x + 1) * rows && r < kPairRows; ++r, after += p.c_bytes) {
      for (int64_t line = 0; line < p.lines; ++line) __builtin_prefetch(after + 64 * line, 1);
    }
    late.Move(rows);
  }
  _tile_stored(0, p.sums, bytes);
  _tile_stored(1, p.sums + kTilePairs, bytes);
  _tile_stored(2, below, bytes);
  _tile_stored(3, below + kTilePairs, bytes);
  Settle();
}

// What is in c already, where its tile is not whole.
void LoadSums(const ProductArgs& p, int64_t rows, int64_t columns, const float* c, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = c + r * p.c_step;
    float* to = sums + r * kPanel;
    Store(to, LoadSome(from, Smaller(columns, kLanes)));
    Store(to + kLanes, columns > kLanes ? LoadSome(from + kLanes, columns - kLanes) : Lanes{});
  }
}

// Packed tiles of up to 32 rows from row `first` on, times the depth [begin, begin + depth) of all
// panels.
void MultiplyRowTiles(const ProductArgs& p, const Bf16* tiles, int64_t first, int64_t begin,
                      int64_t depth, float* sums) {
  const int64_t rows = Smaller(kPairRows, p.rows - first);
  const bool is_float = p.c_type == DType::kFloat32, adds = begin > 0 || p.adds;
  const bool ends = is_float || begin + depth == p.depth;
  const int64_t c_bytes = p.c_step * (is_float ? 4 : 2);
  char* c = static_cast<char*>(p.c) + first * c_bytes;
  const float* panel = p.panels + begin / 2 * kPanel;
  Sums late;
  for (int64_t column = 0; column < p.columns; column += kPanel) {
    const int64_t columns = Smaller(kPanel, p.columns - column);
    const bool in_place = is_float && rows == kPairRows && columns == kPanel;
    TilesProduct tiles_product = {.a = tiles,
                                  .b = panel,
                                  .depth = WholeTiles(depth),
                                  .sums = sums + column * kPairRows,
                                  .sums_step = kPanel,
                                  .accumulate = adds,
                                  .c_after = c + kPanel * (is_float ? 4 : 2),
                                  .c_bytes = c_bytes,
                                  .lines = is_float ? 2
                                           : ends   ? 1
                                                    : 0};
    if (in_place) {
      tiles_product.sums = reinterpret_cast<float*>(c);
      tiles_product.sums_step = p.c_step;
    } else if (is_float && adds) {
      LoadSums(p, rows, columns, reinterpret_cast<const float*>(c), tiles_product.sums);
    }
    MultiplyTiles(tiles_product, late);
    late.Move(kPairRows);
    if (ends && !in_place) late = {tiles_product.sums, rows, columns, c, p.c_step, p.c_type, 0};
    c += kPanel * (is_float ? 4 : 2);
    panel += WholeTiles(p.depth) * kTilePairs * kPanel;
  }
  late.Move(kPairRows);
}

void MultiplyPackedPairs(const ProductArgs& p) {
  BeginPairs();
  ShapeTiles(kPairRows, kTilePairs);
  auto* const tiles = reinterpret_cast<Bf16*>(p.scratch);
  float* const sums = p.scratch + kPackedFloats;
  const auto* a = static_cast<const Bf16*>(p.a.values);
  const int64_t parts = (p.depth + kPairDepth - 1) / kPairDepth;
  const int64_t part = WholeTiles((p.depth + parts - 1) / parts) * kTileDepth;
  // Sums that c cannot hold as they are wait for all parts, 32 rows at a time.
  const bool wait = parts > 1 && p.c_type != DType::kFloat32;
  const int64_t together = wait ? kPairRows : kPairRowsPacked;
  for (int64_t first = 0; first < p.rows; first += together) {
    const int64_t rows = Smaller(together, p.rows - first);
    for (int64_t begin = 0; begin < p.depth; begin += part) {
      const int64_t depth = Smaller(part, p.depth - begin);
      if (p.a.transposed) {
        PackColumnTiles(a + begin * p.a.step + first, p.a.step, rows, depth, tiles);
      } else {
        PackRowTiles(a + first * p.a.step + begin, p.a.step, rows, depth, tiles);
      }
      for (int64_t r = 0; r < rows; r += kPairRows) {
        const int64_t at = r * WholeTiles(depth) * kTileDepth;
        MultiplyRowTiles(p, tiles + at, first + r, begin, depth, sums);
      }
    }
  }
  EndPairs();
}

constexpr ProductKernels kPairProducts = {.type = DType::kBfloat16,
                                          .panel = kPanel,
                                          .depth_step = kTileDepth,
                                          .scratch = kPackedFloats + kSumsFloats,
                                          .slice_rows = kPairRowsPacked,
                                          .side_least = 0,
                                          .of_rows_too = true,
                                          .pack_factor = PackPairFactor,
                                          .multiply_packed = MultiplyPackedPairs};

}  // namespace
}  // namespace skerry
