// Vectors of sixteen floats for processors with AVX-512 F, BW, DQ and VL. See lanes_portable.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace skerry {
namespace {

constexpr int kLanes = 16;
constexpr int kDoubles = kLanes / 2;
constexpr int kTileRows = 14;  // 14 rows × 2 vectors of a 32-wide panel: 28 of 32 registers
constexpr int kPanel = 32;
constexpr int kProductTiles = 1, kProductDepth = 384;  // body/product.h
constexpr int kProductSideLeast = 512;                 // kernel_table.h
constexpr bool kProductsOfRowsToo = false;
constexpr int kBlockRows = 112;  // of a block of scores in the backward pass of attention

typedef float Lanes __attribute__((vector_size(64)));
typedef uint32_t UnsignedLanes __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(64)));
typedef float UnalignedLanes __attribute__((vector_size(64), aligned(4), may_alias));

inline Lanes Spread(float x) {
  return _mm512_set1_ps(x);
}

// a·b + c, rounded once.
inline Lanes MultiplyAdd(Lanes a, Lanes b, Lanes c) {
  return _mm512_fmadd_ps(a, b, c);
}

inline Doubles LoadDoubles(const float* p) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}

inline Lanes SquareRoot(Lanes x) {
  return _mm512_sqrt_ps(x);
}

#define SKERRY_LANES_HAVE_SCALE

inline Lanes RoundToInteger(Lanes x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// x · 2ⁿ; past the ends infinity, denormals and zero.
inline Lanes ScaleByPowerOfTwo(Lanes x, Lanes n) {
  return _mm512_scalef_ps(x, n);
}

#define SKERRY_LANES_HAVE_EXTREMES

inline Lanes Larger(Lanes x, Lanes bound) {
  return _mm512_max_ps(bound, x);
}

inline Lanes Lower(Lanes x, Lanes bound) {
  return _mm512_min_ps(bound, x);
}

#define SKERRY_LANES_HAVE_MASKS

inline __mmask16 FirstOf(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}

inline Lanes LoadSome(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(FirstOf(count), p);
}

inline void StoreSome(float* p, Lanes x, int64_t count) {
  _mm512_mask_storeu_ps(p, FirstOf(count), x);
}

}  // namespace
}  // namespace skerry
