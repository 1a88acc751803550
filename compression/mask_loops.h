// The bodies of the mask loops, included like value_loops.h. What the compiler does not find itself
// (a mask from a comparison, bit packing) is written for SKERRY_LEVEL 1 (AVX2) and 2 (AVX-512) with
// intrinsics, for 0 in plain C++.
#pragma once

// The mask of a whole word's 64 magnitudes, or of fewer.
uint64_t AtLeastFew(const float* u, size_t count, int32_t threshold) {
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
uint64_t AtLeastWord(const float* u, int32_t threshold) {
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
__m256i Load8(const float* u) {
  return _mm256_castps_si256(_mm256_loadu_ps(u));
}
uint64_t AtLeast32(const float* u, int32_t threshold) {
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
uint64_t AtLeastWord(const float* u, int32_t threshold) {
  return AtLeast32(u, threshold) | AtLeast32(u + 32, threshold) << 32;
}
uint64_t NegativeWord(const float* u) {
  return Negative32(u) | Negative32(u + 32) << 32;
}
#else
uint64_t AtLeastWord(const float* u, int32_t threshold) {
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

#if SKERRY_LEVEL == 0
uint64_t Gather(uint64_t bits, uint64_t select) {
  uint64_t out = 0;
  for (int at = 0; select != 0; ++at, select &= select - 1) {
    out |= ((bits >> std::countr_zero(select)) & 1) << at;
  }
  return out;
}
uint64_t Scatter(uint64_t bits, uint64_t select) {
  uint64_t out = 0;
  for (; select != 0; bits >>= 1, select &= select - 1) {
    out |= (bits & 1) << std::countr_zero(select);
  }
  return out;
}
#else
uint64_t Gather(uint64_t bits, uint64_t select) {
  return _pext_u64(bits, select);
}
uint64_t Scatter(uint64_t bits, uint64_t select) {
  return _pdep_u64(bits, select);
}
#endif

size_t AtLeast(const float* u, size_t n, uint32_t threshold_bits, uint64_t* mask) {
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

size_t PackBits(const uint64_t* mask, const uint64_t* select, size_t words, uint64_t* packed) {
  uint64_t pending = 0;
  size_t total = 0;
  for (size_t w = 0; w < words; ++w) {
    const uint64_t bits = Gather(mask[w], select[w]);
    const auto count = static_cast<size_t>(std::popcount(select[w]));
    const size_t at = total % 64;
    pending |= bits << at;
    total += count;
    if (at + count < 64) continue;
    packed[total / 64 - 1] = pending;
    pending = at == 0 ? 0 : bits >> (64 - at);
  }
  if (total % 64 != 0) packed[total / 64] = pending;
  return total;
}

void UnpackBits(const uint64_t* packed, const uint64_t* select, size_t words, uint64_t* mask) {
  size_t total = 0;
  for (size_t w = 0; w < words; ++w) {
    const size_t count = static_cast<size_t>(std::popcount(select[w]));
    const size_t at = total % 64;
    uint64_t bits = count == 0 ? 0 : packed[total / 64] >> at;
    if (at + count > 64) bits |= packed[total / 64 + 1] << (64 - at);
    mask[w] = Scatter(bits, select[w]);
    total += count;
  }
}

void AccumulateSigned(const uint64_t* nonzero, const uint64_t* minus, size_t n, int64_t step,
                      int64_t* sum) {
  for (size_t first = 0; first < n; first += 64, ++nonzero, ++minus) {
    const size_t count = std::min<size_t>(64, n - first);
    const uint64_t some = *nonzero;
    const uint64_t negative = *minus;
    if (some == 0) continue;
    for (size_t i = 0; i < count; ++i) {
      const auto keep = -static_cast<int64_t>((some >> i) & 1);
      const auto flip = -static_cast<int64_t>((negative >> i) & 1);
      sum[first + i] += ((step ^ flip) - flip) & keep;
    }
  }
}

void DecodeSigned(const uint64_t* nonzero, const uint64_t* minus, size_t n, float step,
                  float* values) {
  const auto bits = std::bit_cast<uint32_t>(step);
  for (size_t first = 0; first < n; first += 32) {
    const size_t count = std::min<size_t>(32, n - first);
    const auto some = static_cast<uint32_t>(nonzero[first / 64] >> (first % 64));
    const auto negative = static_cast<uint32_t>(minus[first / 64] >> (first % 64));
    for (size_t i = 0; i < count; ++i) {
      const uint32_t keep = -((some >> i) & 1);
      const uint32_t sign = (negative >> i) << 31;
      values[first + i] = std::bit_cast<float>((bits | sign) & keep);
    }
  }
}

[[gnu::always_inline]] inline void PutFew(const MaskCode& code, uint64_t masks, size_t count,
                                          BitWriter* writer) {
  uint64_t bits = 0;
  size_t filled = 0;
  for (size_t j = 0; j < count; ++j) {
    const MaskCode::Word word = code.words[(masks >> (8 * j)) & 0xff];
    bits |= static_cast<uint64_t>(word.bits) << filled;
    filled += word.length;
  }
  writer->Put(bits, filled);
}

void PutWords(const MaskCode& code, const uint64_t* mask, size_t bytes, BitWriter* writer) {
  BitWriter local = *writer;
  size_t i = 0;
  for (; i + 4 <= bytes; i += 4) PutFew(code, mask[i / 8] >> (i % 8 * 8), 4, &local);
  if (i < bytes) PutFew(code, mask[i / 8] >> (i % 8 * 8), bytes - i, &local);
  *writer = local;
}

// One word off `bits`; its mask.
[[gnu::always_inline]] inline uint64_t TakeWord(const MaskCode& code, uint64_t* bits,
                                                size_t* taken) {
  const size_t match = code.matches[*bits & ((1 << kMaskCodeBits) - 1)];
  *bits >>= match & 63;
  *taken += match & 63;
  return match >> 8;
}

void TakeWords(const MaskCode& code, size_t bytes, BitReader* reader, uint64_t* mask) {
  std::fill_n(mask, (bytes + 7) / 8, uint64_t{0});
  for (size_t i = 0; i < bytes; ++i) {
    uint64_t bits = reader->Peek();
    size_t taken = 0;
    mask[i / 8] |= TakeWord(code, &bits, &taken) << (i % 8 * 8);
    reader->Skip(taken);
  }
}

void TakeTwo(const MaskCode* const* codes, BitReader* readers, uint64_t* const* masks,
             const char* ahead, size_t lines) {
  const size_t lines_a_step = lines / (kCodecBlock / 32);
  BitReader first = readers[0], second = readers[1];
  for (size_t half = 0; half < kCodecBlock / 32; ++half) {
    uint64_t bits[2] = {first.Peek(), second.Peek()};
    uint64_t four[2] = {0, 0};
    size_t taken[2] = {0, 0};
    for (size_t j = 0; j < 4; ++j) {
      four[0] |= TakeWord(*codes[0], &bits[0], &taken[0]) << (8 * j);
      four[1] |= TakeWord(*codes[1], &bits[1], &taken[1]) << (8 * j);
    }
    first.Skip(taken[0]);
    second.Skip(taken[1]);
    for (size_t s = 0; s < 2; ++s) {
      if (half % 2 == 0) masks[s][half / 2] = 0;
      masks[s][half / 2] |= four[s] << (half % 2 * 32);
    }
    for (size_t line = 0; line < lines_a_step; ++line, ahead += 64) __builtin_prefetch(ahead, 1);
  }
  readers[0] = first;
  readers[1] = second;
}

// The threshold grows bit by bit from the top while k values still reach it; when just k do, the
// least of them is it.
uint32_t KthLargest(const uint32_t* values, size_t n, size_t k, int dropped) {
  int32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<int32_t>(values[i]);
    largest = value > largest ? value : largest;
  }
  int32_t threshold = 0;
  for (int bit = std::bit_width(static_cast<uint32_t>(largest)) - 1; bit >= dropped; --bit) {
    const int32_t candidate = threshold | (1 << bit);
    int32_t reach = 0;
    for (size_t i = 0; i < n; ++i) reach += static_cast<int32_t>(values[i]) >= candidate ? 1 : 0;
    if (static_cast<size_t>(reach) < k) continue;
    threshold = candidate;
    if (static_cast<size_t>(reach) > k) continue;
    int32_t least = largest;
    for (size_t i = 0; i < n; ++i) {
      const auto value = static_cast<int32_t>(values[i]);
      const int32_t reaching = value >= candidate ? value : largest;
      least = reaching < least ? reaching : least;
    }
    threshold = least >> dropped << dropped;
    break;
  }
  return static_cast<uint32_t>(threshold);
}
