// The bodies of the loops that say what of a block or a tile is sent, included like value_loops.h.
// What the compiler does not find itself (a mask from a comparison) is written for SKERRY_LEVEL 1
// (AVX2) and 2 (AVX-512) with intrinsics, for 0 in plain C++. AVX-512 holds a whole block in 16
// registers: it is read once and written nowhere.
#pragma once

// The mask of a whole word's 64 magnitudes, or of fewer.
template <typename T>
uint64_t AtLeastFew(const T* u, size_t count, int32_t threshold) {
  uint64_t mask = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(u[i]) & 0x7fffffff);
    mask |= static_cast<uint64_t>(bits >= threshold) << i;
  }
  return mask;
}

uint64_t NegativeFew(const float* u, size_t count) {
  uint64_t mask = 0;
  for (size_t i = 0; i < count; ++i) {
    mask |= static_cast<uint64_t>(std::bit_cast<uint32_t>(u[i]) >> 31) << i;
  }
  return mask;
}

#if SKERRY_LEVEL == 0
template <typename T>
uint64_t AtLeastWord(const T* u, int32_t threshold) {
  return AtLeastFew(u, 64, threshold);
}
uint64_t NegativeWord(const float* u) {
  return NegativeFew(u, 64);
}
#elif SKERRY_LEVEL == 1
// The sign bits of 32 integers, in order.
uint64_t Signs32(const __m256i (&eight)[4]) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i low = _mm256_packs_epi32(eight[0], eight[1]);
  const __m256i high = _mm256_packs_epi32(eight[2], eight[3]);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
}
template <typename T>
__m256i Load8(const T* u) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(u));
}
template <typename T>
uint64_t AtLeast32(const T* u, int32_t threshold) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i below = _mm256_set1_epi32(threshold - 1);
  __m256i eight[4];
  for (size_t i = 0; i < 4; ++i) {
    eight[i] = _mm256_cmpgt_epi32(_mm256_and_si256(Load8(u + 8 * i), magnitude), below);
  }
  return Signs32(eight);
}
uint64_t Negative32(const float* u) {
  return Signs32({Load8(u), Load8(u + 8), Load8(u + 16), Load8(u + 24)});
}
template <typename T>
uint64_t AtLeastWord(const T* u, int32_t threshold) {
  return AtLeast32(u, threshold) | AtLeast32(u + 32, threshold) << 32;
}
uint64_t NegativeWord(const float* u) {
  return Negative32(u) | Negative32(u + 32) << 32;
}
#else
template <typename T>
uint64_t AtLeastWord(const T* u, int32_t threshold) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i least = _mm512_set1_epi32(threshold);
  uint64_t mask = 0;
  for (size_t i = 0; i < 64; i += 16) {
    const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(u + i), magnitude);
    mask |= static_cast<uint64_t>(_mm512_cmpge_epi32_mask(bits, least)) << i;
  }
  return mask;
}
uint64_t NegativeWord(const float* u) {
  uint64_t mask = 0;
  for (size_t i = 0; i < 64; i += 16) {
    mask |= static_cast<uint64_t>(_mm512_movepi32_mask(_mm512_loadu_si512(u + i))) << i;
  }
  return mask;
}
#endif

template <typename T>
size_t AtLeast(const T* u, size_t n, uint32_t threshold_bits, uint64_t* mask) {
  const auto threshold = static_cast<int32_t>(threshold_bits);
  size_t i = 0, ones = 0;
  for (; i + 64 <= n; i += 64) {
    *mask = AtLeastWord(u + i, threshold);
    ones += static_cast<size_t>(std::popcount(*mask++));
  }
  if (i == n) return ones;
  *mask = AtLeastFew(u + i, n - i, threshold);
  return ones + static_cast<size_t>(std::popcount(*mask));
}

void Negative(const float* u, size_t n, uint64_t* mask) {
  size_t i = 0;
  for (; i + 64 <= n; i += 64) *mask++ = NegativeWord(u + i);
  if (i < n) *mask = NegativeFew(u + i, n - i);
}

// 16 sums of every 16th, halved together four times.
float MagnitudeSum(const float* u, size_t n) {
  constexpr size_t kSums = 16;
  float sums[kSums] = {};
  const size_t whole = n - n % kSums;
  for (size_t first = 0; first < whole; first += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += std::fabs(u[first + j]);
  }
  for (size_t j = 0; j < n - whole; ++j) sums[j] += std::fabs(u[whole + j]);
  for (size_t half = kSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

// ---- a block -----------------------------------------------------------------------------------

// Of any length, in memory.
struct StoredBlock {
  alignas(64) float u[kBlock];
  size_t count;

  SKERRY_BODY size_t Reach(uint32_t threshold_bits, uint64_t* mask) const {
    return AtLeast(u, count, threshold_bits, mask);
  }
  SKERRY_BODY void Minus(uint64_t* mask) const { Negative(u, count, mask); }
  SKERRY_BODY float Sum(ReadAhead* ahead) const {
    for (size_t i = 0; i < count; i += ReadAhead::kLine) ahead->Line();
    return MagnitudeSum(u, count);
  }
};

#if SKERRY_LEVEL == 2
SKERRY_BODY __m512i Magnitude(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

SKERRY_BODY uint64_t Joined(__mmask16 a, __mmask16 b, __mmask16 c, __mmask16 d) {
  const uint32_t low = a | static_cast<uint32_t>(b) << 16;
  const uint32_t high = c | static_cast<uint32_t>(d) << 16;
  return low | static_cast<uint64_t>(high) << 32;
}

template <bool kTheta, Rest kRest>
SKERRY_BODY __m512 Load16(const LoopSource& source, size_t i) {
  __m512 v = _mm512_loadu_ps(source.base + i);
  if constexpr (kTheta) v = _mm512_sub_ps(v, _mm512_loadu_ps(source.theta + i));
  if constexpr (kRest == Rest::kFloats) v = _mm512_add_ps(v, _mm512_loadu_ps(source.residual + i));
  if constexpr (kRest == Rest::kHalves) {
    const auto* halves = reinterpret_cast<const __m256i*>(source.halves + i);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(halves));
    v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
  }
  return v;
}

// Of kBlock values, in registers.
struct HeldBlock {
  static constexpr size_t kVectors = kBlock / 16, kWords = kBlock / 64;
  __m512 v[kVectors];

  template <bool kTheta, Rest kRest>
  SKERRY_BODY void Load(const LoopSource& source) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kVectors; ++i) v[i] = Load16<kTheta, kRest>(source, 16 * i);
  }
  SKERRY_BODY uint32_t Largest() const {
    __m512i most[4] = {Magnitude(v[0]), Magnitude(v[1]), Magnitude(v[2]), Magnitude(v[3])};
#pragma GCC unroll 16
    for (size_t i = 4; i < kVectors; ++i) {
      most[i % 4] = _mm512_max_epi32(most[i % 4], Magnitude(v[i]));
    }
    const __m512i all =
        _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]));
    return static_cast<uint32_t>(_mm512_reduce_max_epi32(all));
  }
  SKERRY_BODY size_t Reach(uint32_t threshold_bits, uint64_t* mask) const {
    const __m512i least = _mm512_set1_epi32(static_cast<int32_t>(threshold_bits));
    size_t ones = 0;
#pragma GCC unroll 4
    for (size_t w = 0; w < kWords; ++w) {
      const __m512* of = v + 4 * w;
      mask[w] = Joined(_mm512_cmpge_epi32_mask(Magnitude(of[0]), least),
                       _mm512_cmpge_epi32_mask(Magnitude(of[1]), least),
                       _mm512_cmpge_epi32_mask(Magnitude(of[2]), least),
                       _mm512_cmpge_epi32_mask(Magnitude(of[3]), least));
      ones += static_cast<size_t>(std::popcount(mask[w]));
    }
    return ones;
  }
  SKERRY_BODY void Minus(uint64_t* mask) const {
#pragma GCC unroll 4
    for (size_t w = 0; w < kWords; ++w) {
      const __m512* of = v + 4 * w;
      mask[w] = Joined(_mm512_movepi32_mask(_mm512_castps_si512(of[0])),
                       _mm512_movepi32_mask(_mm512_castps_si512(of[1])),
                       _mm512_movepi32_mask(_mm512_castps_si512(of[2])),
                       _mm512_movepi32_mask(_mm512_castps_si512(of[3])));
    }
  }
  // As MagnitudeSum.
  SKERRY_BODY float Sum(ReadAhead* ahead) const {
    __m512 sums = _mm512_castsi512_ps(Magnitude(v[0]));
    ahead->Line();
#pragma GCC unroll 16
    for (size_t i = 1; i < kVectors; ++i) {
      sums = _mm512_add_ps(sums, _mm512_castsi512_ps(Magnitude(v[i])));
      ahead->Line();
    }
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps(sums, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};

template <bool kTheta, Rest kRest, typename Use>
SKERRY_BODY uint32_t WithHeld(const LoopSource& source, Use&& use) {
  HeldBlock block;
  block.Load<kTheta, kRest>(source);
  const uint32_t largest = block.Largest();
  if (largest <= kMagnitudeMaxBits) use(block, largest);
  return largest;
}
#endif

// Forms the block and calls use(block, largest) unless a value is void; returns the largest.
template <typename Use>
SKERRY_BODY uint32_t WithBlock(const LoopSource& source, size_t n, Use&& use) {
#if SKERRY_LEVEL == 2
  if (n == kBlock) {
    return WithTerms(
        source, [&]<bool kTheta, Rest kRest>() __attribute__((always_inline)) {
          return WithHeld<kTheta, kRest>(source, use);
        });
  }
#endif
  StoredBlock block;
  block.count = n;
  const uint32_t largest = FormDelta(source, 0, n, block.u);
  if (largest <= kMagnitudeMaxBits) use(block, largest);
  return largest;
}

// Raises *step until at most kTernaryPlacesMax of a whole block reach its half, but at most
// kTernaryRaisesMax times, and never where that leaves as many places: so it takes its own output
// as it is. `ones` reach *step; reach(bits, mask) says how many reach a threshold, and which.
// Returns how many are left, in `mask`.
template <size_t kWords, typename Reach>
SKERRY_BODY size_t Rarefy(size_t ones, uint8_t* step, uint64_t* mask, Reach&& reach) {
  uint64_t rarer[kWords];
  const int most = std::min<int>(*step + kTernaryRaisesMax, kStepCodeMax);
  for (int raised = *step + 1; raised <= most && ones > kTernaryPlacesMax; ++raised) {
    const auto code = static_cast<uint8_t>(raised);
    const size_t left = reach(HalfBits(code), rarer);
    if (left == 0) break;
    if (left == ones) continue;
    for (size_t w = 0; w < kWords; ++w) mask[w] = rarer[w];
    ones = left;
    *step = code;
  }
  return ones;
}

uint32_t MarkTernary(const LoopSource& source, size_t n, TernaryMarks* marks) {
  const auto mark = [&](const auto& block, uint32_t largest) __attribute__((always_inline)) {
    marks->step = NearestStep(std::bit_cast<float>(largest));
    marks->ones = 0;
    if (marks->step == 0) {
      std::fill_n(marks->nonzero, (n + 63) / 64, uint64_t{0});
      return;
    }
    const auto reach = [&](uint32_t bits, uint64_t * mask) __attribute__((always_inline)) {
      return block.Reach(bits, mask);
    };
    marks->ones = reach(HalfBits(marks->step), marks->nonzero);
    if (n == kBlock && marks->ones > kTernaryPlacesMax) {
      marks->ones = Rarefy<kBlock / 64>(marks->ones, &marks->step, marks->nonzero, reach);
    }
    block.Minus(marks->minus);
  };
  return WithBlock(source, n, mark);
}

uint32_t MarkSign(const LoopSource& source, size_t n, uint64_t* minus, uint8_t* step,
                  ReadAhead* ahead) {
  const auto mark = [&](const auto& block, uint32_t) __attribute__((always_inline)) {
    *step = NearestStep(block.Sum(ahead) / static_cast<float>(n));
    block.Minus(minus);
    if (*step == 0) std::fill_n(minus, (n + 63) / 64, uint64_t{0});
  };
  return WithBlock(source, n, mark);
}

// ---- a tile of top-k ---------------------------------------------------------------------------

#if SKERRY_LEVEL == 2
template <bool kTheta, Rest kRest>
uint32_t FormWordsAbove(const LoopSource& at, size_t n, uint32_t threshold_bits, TileMarks* marks,
                        ReadAhead* ahead) {
  const LoopSource source = at;  // which nothing stored can change
  const TileMarks to = *marks;
  const __m512i least = _mm512_set1_epi32(static_cast<int32_t>(threshold_bits));
  __m512i most[4] = {};
  ReadAhead reading = *ahead;
  size_t reached = 0;
  for (size_t first = 0; first < n; first += 64) {
    __mmask16 reach[4];
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      if (j < kFormLines) reading.Line();
      const __m512 v = Load16<kTheta, kRest>(source, first + 16 * j);
      _mm512_storeu_ps(to.u + first + 16 * j, v);
      most[j] = _mm512_max_epi32(most[j], Magnitude(v));
      reach[j] = _mm512_cmpge_epi32_mask(Magnitude(v), least);
    }
    const uint64_t word = Joined(reach[0], reach[1], reach[2], reach[3]);
    to.mask[first / 64] = word;
    reached += static_cast<size_t>(std::popcount(word));
  }
  marks->reach = reached;
  *ahead = reading;
  return static_cast<uint32_t>(_mm512_reduce_max_epi32(
      _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]))));
}
#endif

uint32_t FormAbove(const LoopSource& source, size_t n, uint32_t threshold_bits, TileMarks* marks,
                   ReadAhead* ahead) {
#if SKERRY_LEVEL == 2
  if (n % 64 == 0) {
    return WithTerms(
        source, [&]<bool kTheta, Rest kRest>() __attribute__((always_inline)) {
          return FormWordsAbove<kTheta, kRest>(source, n, threshold_bits, marks, ahead);
        });
  }
#endif
  uint32_t largest = 0;
  marks->reach = 0;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    float* const u = marks->u + first;
    largest = std::max(largest, FormDelta(source, first, count, u));
    marks->reach += AtLeast(u, count, threshold_bits, marks->mask + first / 64);
    for (size_t i = 0; i < kFormLines * count / 4; i += ReadAhead::kLine) ahead->Line();
  }
  return largest;
}
