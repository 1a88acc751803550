// Loads and stores of bf16 for processors with AVX512-BF16, beside lanes_avx512.h.
#pragma once

#include "kernels/cpu/lanes_avx512.h"
#include "kernels/dtype.h"

namespace skerry {
namespace {

inline Lanes Widened(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

// To nearest even; denormals become zero.
inline __m256i Narrowed(Lanes x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
}

inline Lanes Load(const Bf16* p) {
  return Widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

inline void Store(Bf16* p, Lanes x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), Narrowed(x));
}

inline Lanes LoadSome(const Bf16* p, int64_t count) {
  return Widened(_mm256_maskz_loadu_epi16(FirstOf(count), p));
}

inline void StoreSome(Bf16* p, Lanes x, int64_t count) {
  _mm256_mask_storeu_epi16(p, FirstOf(count), Narrowed(x));
}

}  // namespace
}  // namespace skerry
