// The bodies of the mask loops, included like value_loops.h. What the compiler does not find itself
// (a mask from a comparison, bit packing) is written for SKERRY_LEVEL 1 (AVX2) and 2 (AVX-512) with
// intrinsics, for 0 in plain C++.
#pragma once

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

void PutWords(const MaskCode& code, const uint64_t* mask, size_t bytes, BitWriter* writer,
              ReadAhead* ahead) {
  constexpr size_t kBytes = 4, kLines = 8 * kBytes / ReadAhead::kLine;
  BitWriter local = *writer;
  ReadAhead reading = *ahead;
  size_t i = 0;
  for (; i + kBytes <= bytes; i += kBytes) {
    for (size_t line = 0; line < kLines; ++line) reading.Line();
    PutFew(code, mask[i / 8] >> (i % 8 * 8), kBytes, &local);
  }
  if (i < bytes) PutFew(code, mask[i / 8] >> (i % 8 * 8), bytes - i, &local);
  *writer = local;
  *ahead = reading;
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

template <size_t kStreams>
void TakeStreams(const MaskCode* const* codes, BitReader* readers, uint64_t* const* masks,
                 const char* ahead, size_t lines) {
  constexpr size_t kSteps = kCodecBlock / 32;
  const size_t lines_a_step = lines / kSteps;
  const uint16_t* matches[kStreams];
  BitReader local[kStreams];
  for (size_t s = 0; s < kStreams; ++s) {
    matches[s] = codes[s]->matches.data();
    local[s] = readers[s];
  }
  for (size_t step = 0; step < kSteps; ++step) {
    uint64_t bits[kStreams], taken[kStreams] = {};
    uint32_t four[kStreams] = {};
#pragma GCC unroll 4
    for (size_t s = 0; s < kStreams; ++s) bits[s] = local[s].Peek();
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (size_t s = 0; s < kStreams; ++s) {
        const uint32_t match = matches[s][bits[s] & ((1 << kMaskCodeBits) - 1)];
        bits[s] >>= match % 64;
        taken[s] += match;
        // Masks are in the upper halves: the last one's place is the top.
        four[s] = four[s] >> 8 | (match & 0xff00) << 16;
      }
    }
#pragma GCC unroll 4
    for (size_t s = 0; s < kStreams; ++s) {
      local[s].Skip(taken[s] & 0xff);  // four lengths, at most 48; masks are above
      std::memcpy(reinterpret_cast<uint8_t*>(masks[s]) + 4 * step, &four[s], 4);
    }
    for (size_t line = 0; line < lines_a_step; ++line, ahead += 64) __builtin_prefetch(ahead, 1);
  }
  for (size_t s = 0; s < kStreams; ++s) readers[s] = local[s];
}

void ReverseBits(const uint8_t* end, size_t words, uint8_t* out) {
  for (size_t i = 0; i < words; ++i) {
    uint64_t bits;
    std::memcpy(&bits, end - 8 * i - 8, 8);
    bits = ReversedBits(bits);
    std::memcpy(out + 8 * i, &bits, 8);
  }
}
