// Vectors of four floats by compiler extension: SSE2 on x86-64, NEON on ARM, plain code elsewhere.
//
// A lanes header gives the bodies (body/*.h) their vectors: Lanes, UnsignedLanes, kLanes, Doubles,
// kDoubles, the register tile, and the few operations that depend on their number or need an
// instruction's name.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

constexpr int kLanes = 4;
constexpr int kDoubles = kLanes / 2;
constexpr int kTileRows = 3;  // 3 rows × 4 vectors of a 16-wide panel: 12 accumulators
constexpr int kPanel = 16;
constexpr int kProductTiles = 24, kProductDepth = 256;  // body/product.h
constexpr int kProductSideLeast = 0;                    // kernel_table.h
constexpr bool kProductsOfRowsToo = true;
constexpr int kBlockRows = 48;  // of a block of scores in the backward pass of attention

typedef float Lanes __attribute__((vector_size(16)));
typedef uint32_t UnsignedLanes __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(16)));
typedef float UnalignedLanes __attribute__((vector_size(16), aligned(4), may_alias));

inline Lanes Spread(float x) {
  return Lanes{x, x, x, x};
}

// a·b + c, rounded twice.
inline Lanes MultiplyAdd(Lanes a, Lanes b, Lanes c) {
  return a * b + c;
}

inline Doubles LoadDoubles(const float* p) {
  return Doubles{p[0], p[1]};
}

inline Lanes SquareRoot(Lanes x) {
  Lanes root = x;
  for (int l = 0; l < kLanes; ++l) root[l] = __builtin_sqrtf(x[l]);
  return root;
}

}  // namespace
}  // namespace skerry
