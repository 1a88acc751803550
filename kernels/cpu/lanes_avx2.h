// Vectors of eight floats for processors with AVX2 and FMA. See lanes_portable.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace skerry {
namespace {

constexpr int kLanes = 8;
constexpr int kDoubles = kLanes / 2;
constexpr int kTileRows = 6;  // 6 rows × 2 vectors of a 16-wide panel: 12 of 16 registers
constexpr int kPanel = 16;
constexpr int kProductTiles = 24, kProductDepth = 256;  // body/product.h
constexpr int kProductSideLeast = 0;                    // kernel_table.h
constexpr bool kProductsOfRowsToo = true;
constexpr int kBlockRows = 48;  // of a block of scores in the backward pass of attention

typedef float Lanes __attribute__((vector_size(32)));
typedef uint32_t UnsignedLanes __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(32)));
typedef float UnalignedLanes __attribute__((vector_size(32), aligned(4), may_alias));

inline Lanes Spread(float x) {
  return _mm256_set1_ps(x);
}

// a·b + c, rounded once.
inline Lanes MultiplyAdd(Lanes a, Lanes b, Lanes c) {
  return _mm256_fmadd_ps(a, b, c);
}

inline Doubles LoadDoubles(const float* p) {
  return _mm256_cvtps_pd(_mm_loadu_ps(p));
}

inline Lanes SquareRoot(Lanes x) {
  return _mm256_sqrt_ps(x);
}

#define SKERRY_LANES_HAVE_EXTREMES

inline Lanes Larger(Lanes x, Lanes bound) {
  return _mm256_max_ps(bound, x);
}

inline Lanes Lower(Lanes x, Lanes bound) {
  return _mm256_min_ps(bound, x);
}

}  // namespace
}  // namespace skerry
