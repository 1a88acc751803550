// The bodies of the value loops, included by one file per instruction set (loops_*.cc), each inside
// its own unnamed namespace and under its own target, where the compiler vectorises them.
#pragma once

#define SKERRY_BODY [[gnu::always_inline]] inline

constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint32_t kMagnitudeMaxBits = std::bit_cast<uint32_t>(kMagnitudeMax);
constexpr size_t kBlock = kCodecBlock;

SKERRY_BODY float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
}

// The smallest e at which absmax / 2^e < 127.5: 2^(E−6), one more from 1.9921875·2^E on.
SKERRY_BODY int ScaleExponent(uint32_t absmax_bits) {
  const int exponent = static_cast<int>(absmax_bits >> 23) - 127;
  const int carry = (absmax_bits & 0x7fffff) >= 0x7f0000 ? 1 : 0;
  return std::max(exponent - 6 + carry, kQuantumExponent);
}

SKERRY_BODY float Widened(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

// Which terms a source has.
enum class Rest { kNone, kFloats, kHalves };

// Calls use.operator()<has theta, its Rest>().
template <typename Use>
SKERRY_BODY auto WithTerms(const LoopSource& source, Use&& use) {
  if (source.theta != nullptr && source.halves != nullptr) {
    return use.template operator()<true, Rest::kHalves>();
  }
  if (source.theta != nullptr && source.residual != nullptr) {
    return use.template operator()<true, Rest::kFloats>();
  }
  if (source.theta != nullptr) return use.template operator()<true, Rest::kNone>();
  if (source.halves != nullptr) return use.template operator()<false, Rest::kHalves>();
  if (source.residual != nullptr) return use.template operator()<false, Rest::kFloats>();
  return use.template operator()<false, Rest::kNone>();
}

template <bool kTheta, Rest kRest>
SKERRY_BODY uint32_t FormDelta(const LoopSource& source, size_t first, size_t count, float* u) {
  int32_t largest = 0;  // magnitudes order like their bits; signed maxima vectorise better
  for (size_t i = 0; i < count; ++i) {
    float v = source.base[first + i];
    if constexpr (kTheta) v -= source.theta[first + i];
    if constexpr (kRest == Rest::kFloats) v += source.residual[first + i];
    if constexpr (kRest == Rest::kHalves) v += Widened(source.halves[first + i]);
    u[i] = v;
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(v) & kMagnitudeBits);
    largest = bits > largest ? bits : largest;
  }
  return static_cast<uint32_t>(largest);
}

SKERRY_BODY uint32_t FormDelta(const LoopSource& source, size_t first, size_t count, float* u) {
  return WithTerms(
      source, [&]<bool kTheta, Rest kRest>() __attribute__((always_inline)) {
        return FormDelta<kTheta, kRest>(source, first, count, u);
      });
}

uint32_t FormWhole(const LoopSource& source, size_t n, float* u) {
  return FormDelta(source, 0, n, u);
}

// Adding 1.5·2^23 leaves the nearest integer, ties to even, in the low bits.
SKERRY_BODY int32_t Nearest(float v) {
  constexpr float kShifter = 12582912.0f;
  return std::bit_cast<int32_t>(v + kShifter) - std::bit_cast<int32_t>(kShifter);
}

// Values worked on between two requests for memory.
constexpr size_t kStride = 64;

SKERRY_BODY void AskAhead(ReadAhead* ahead) {
  for (size_t i = 0; i < kStride; i += ReadAhead::kLine) ahead->Line();
}

SKERRY_BODY void RoundBlock(const float* u, size_t count, float inverse_scale, int8_t* out,
                            ReadAhead* ahead) {
  size_t i = 0;
  for (; i + kStride <= count; i += kStride) {
    AskAhead(ahead);
    for (size_t j = i; j < i + kStride; ++j)
      out[j] = static_cast<int8_t>(Nearest(u[j] * inverse_scale));
  }
  for (; i < count; ++i) out[i] = static_cast<int8_t>(Nearest(u[i] * inverse_scale));
}

bool QuantiseInt8(const LoopSource& source, size_t n, uint8_t* scales, int8_t* integers) {
  alignas(64) float u[kBlock];
  ReadAhead ahead(source);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const uint32_t largest = FormDelta(source, first, count, u);
    if (largest > kMagnitudeMaxBits) return false;
    const int exponent = ScaleExponent(largest);
    scales[first / kBlock] = static_cast<uint8_t>(exponent - kQuantumExponent);
    RoundBlock(u, count, PowerOfTwo(-exponent), integers + first, &ahead);
  }
  return true;
}

void AccumulateInt8(const uint8_t* scales, const int8_t* integers, size_t n, int64_t weight,
                    int64_t* sum) {
  const auto small_weight = static_cast<int32_t>(weight);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const int shift = scales[first / kBlock];
    for (size_t i = first; i < first + count; ++i) {
      sum[i] += static_cast<int64_t>(integers[i] * small_weight) << shift;
    }
  }
}

void DecodeInt8(const uint8_t* scales, const int8_t* integers, size_t n, float* values) {
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const float scale = PowerOfTwo(scales[first / kBlock] + kQuantumExponent);
    for (size_t i = first; i < first + count; ++i) {
      values[i] = static_cast<float>(integers[i]) * scale;
    }
  }
}

// Adding 2^23 units of the same sign leaves whole units, ties to even, and takes the sign off zero.
// Above that a float is a whole number of units already.
SKERRY_BODY float NearestMultiple(float v) {
  constexpr float kWhole = 0x1p23f * static_cast<float>(kQuantum);
  constexpr auto kWholeBits = std::bit_cast<int32_t>(kWhole);
  const auto bits = std::bit_cast<int32_t>(v);
  const int32_t magnitude = bits & static_cast<int32_t>(kMagnitudeBits);
  const auto shifter = std::bit_cast<float>((bits ^ magnitude) | kWholeBits);
  const auto rounded = std::bit_cast<int32_t>((v + shifter) - shifter);
  // Chosen by a mask, because a condition would keep the loop scalar.
  const int32_t small = -static_cast<int32_t>(magnitude < kWholeBits);
  return std::bit_cast<float>((rounded & small) | (bits & ~small));
}

bool RoundToQuantum(const LoopSource& source, size_t n, float* values) {
  alignas(64) float u[kBlock];
  ReadAhead ahead(source);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    if (FormDelta(source, first, count, u) > kMagnitudeMaxBits) return false;
    size_t i = 0;
    for (; i + kStride <= count; i += kStride) {
      AskAhead(&ahead);
      for (size_t j = i; j < i + kStride; ++j) values[first + j] = NearestMultiple(u[j]);
    }
    for (; i < count; ++i) values[first + i] = NearestMultiple(u[i]);
  }
  return true;
}

// Adding 1.5·2^52 leaves the nearest integer, ties to even, in the low bits.
SKERRY_BODY int64_t Units(float value) {
  constexpr double kShifter = 0x1.8p52;
  const double units = static_cast<double>(value) * (1.0 / kQuantum);
  return std::bit_cast<int64_t>(units + kShifter) - std::bit_cast<int64_t>(kShifter);
}

void AccumulatePlain(const float* values, size_t n, int64_t weight, int64_t* sum) {
  if (weight == 1) {  // AVX2 lacks the product
    for (size_t i = 0; i < n; ++i) sum[i] += Units(values[i]);
    return;
  }
  for (size_t i = 0; i < n; ++i) sum[i] += Units(values[i]) * weight;
}

bool InRange(const float* values, size_t n) {
  int32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(values[i]) & kMagnitudeBits);
    largest = bits > largest ? bits : largest;
  }
  return static_cast<uint32_t>(largest) <= kMagnitudeMaxBits;
}

// int64 → double in two exact halves and one rounding, equal to the conversion instruction, which
// AVX2 lacks for vectors.
void ScaleSum(const int64_t* sum, size_t n, double scale, float* mean) {
  constexpr double kHighBias = 0x1p84 + 0x1p63 + 0x1p52;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t biased = static_cast<uint64_t>(sum[i]) ^ (1ULL << 63);
    const auto high = std::bit_cast<double>((biased >> 32) | 0x4530000000000000ULL);
    const auto low = std::bit_cast<double>((biased & 0xffffffffULL) | 0x4330000000000000ULL);
    mean[i] = static_cast<float>(((high - kHighBias) + low) * scale);
  }
}

double Product(const double* a, const double* b, size_t n) {
  constexpr size_t kSums = 16;
  double sums[kSums] = {};
  const size_t whole = n - n % kSums;
  for (size_t first = 0; first < whole; first += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += a[first + j] * b[first + j];
  }
  for (size_t j = 0; j < n - whole; ++j) sums[j] += a[whole + j] * b[whole + j];
  for (size_t half = kSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

void Exchange(float* low, float* high, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float a = low[i], b = high[i];
    low[i] = b < a ? b : a;
    high[i] = b < a ? a : b;
  }
}

// The smallest e at which absmax / 2^e < 7.5, as for int8; at the top the integers saturate.
SKERRY_BODY int ScaleExponentInt4(uint32_t absmax_bits) {
  const int exponent = static_cast<int>(absmax_bits >> 23) - 127;
  const int carry = (absmax_bits & 0x7fffff) >= 0x700000 ? 1 : 0;
  return std::min(std::max(exponent - 2 + carry, kQuantumExponent), kInt4ExponentMax);
}

// Value and value half a block on, as a pair.
SKERRY_BODY uint8_t PairOf(float low, float high, float inverse_scale) {
  const int32_t l = std::clamp(Nearest(low * inverse_scale), -7, 7);
  const int32_t h = std::clamp(Nearest(high * inverse_scale), -7, 7);
  return static_cast<uint8_t>((l & 15) | (h & 15) << 4);
}

bool QuantiseInt4(const LoopSource& source, size_t n, uint8_t* scales, uint8_t* pairs) {
  alignas(64) float u[kBlock + 1];
  ReadAhead ahead(source);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const uint32_t largest = FormDelta(source, first, count, u);
    if (largest > kMagnitudeMaxBits) return false;
    const int exponent = ScaleExponentInt4(largest);
    scales[first / kBlock] = static_cast<uint8_t>(exponent - kQuantumExponent);
    const float inverse = PowerOfTwo(-exponent);
    if (count % 2 != 0) u[count] = 0;
    const size_t half = (count + 1) / 2;
    uint8_t* const out = pairs + first / 2;
    size_t i = 0;
    for (; i + kStride / 2 <= half; i += kStride / 2) {
      AskAhead(&ahead);
      for (size_t j = i; j < i + kStride / 2; ++j) out[j] = PairOf(u[j], u[j + half], inverse);
    }
    for (; i < half; ++i) out[i] = PairOf(u[i], u[i + half], inverse);
  }
  return true;
}

SKERRY_BODY int LowInt4(uint8_t pair) {
  return ((pair & 15) ^ 8) - 8;
}
SKERRY_BODY int HighInt4(uint8_t pair) {
  return ((pair >> 4) ^ 8) - 8;
}

void AccumulateInt4(const uint8_t* scales, const uint8_t* pairs, size_t n, int64_t weight,
                    int64_t* sum) {
  const auto small_weight = static_cast<int32_t>(weight);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const size_t half = (count + 1) / 2;
    const int shift = scales[first / kBlock];
    const uint8_t* in = pairs + first / 2;
    int64_t* low = sum + first;
    int64_t* high = low + half;
    for (size_t i = 0; i < half; ++i) {
      low[i] += static_cast<int64_t>(LowInt4(in[i]) * small_weight) << shift;
    }
    for (size_t i = 0; i < count - half; ++i) {
      high[i] += static_cast<int64_t>(HighInt4(in[i]) * small_weight) << shift;
    }
  }
}

void DecodeInt4(const uint8_t* scales, const uint8_t* pairs, size_t n, float* values) {
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const size_t half = (count + 1) / 2;
    const float scale = PowerOfTwo(scales[first / kBlock] + kQuantumExponent);
    const uint8_t* in = pairs + first / 2;
    float* low = values + first;
    float* high = low + half;
    for (size_t i = 0; i < half; ++i) low[i] = static_cast<float>(LowInt4(in[i])) * scale;
    for (size_t i = 0; i < count - half; ++i) {
      high[i] = static_cast<float>(HighInt4(in[i])) * scale;
    }
  }
}

SKERRY_BODY uint16_t UpperHalf(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

bool RoundToBf16(const LoopSource& source, size_t n, uint16_t* halves) {
  alignas(64) float u[kBlock];
  ReadAhead ahead(source);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    if (FormDelta(source, first, count, u) > kMagnitudeMaxBits) return false;
    size_t i = 0;
    for (; i + kStride <= count; i += kStride) {
      AskAhead(&ahead);
      for (size_t j = i; j < i + kStride; ++j) {
        halves[first + j] = UpperHalf(NearestMultiple(u[j]));
      }
    }
    for (; i < count; ++i) halves[first + i] = UpperHalf(NearestMultiple(u[i]));
  }
  return true;
}

void WidenBf16(const uint16_t* halves, size_t n, float* values) {
  for (size_t i = 0; i < n; ++i) values[i] = Widened(halves[i]);
}
