#include "compression/loops.h"

#include <algorithm>
#include <bit>

#include "compression/fixed_point.h"

namespace skerry {
namespace {

// The bodies are forced into one wrapper per instruction set, where the compiler vectorises them.
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

template <bool kTheta, bool kResidual>
SKERRY_BODY uint32_t FormDelta(const LoopSource& source, size_t first, size_t count, float* u) {
  int32_t largest = 0;  // magnitudes order like their bits; signed maxima vectorise better
  for (size_t i = 0; i < count; ++i) {
    float v = source.base[first + i];
    if constexpr (kTheta) v -= source.theta[first + i];
    if constexpr (kResidual) v += source.residual[first + i];
    u[i] = v;
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(v) & kMagnitudeBits);
    largest = bits > largest ? bits : largest;
  }
  return static_cast<uint32_t>(largest);
}

SKERRY_BODY uint32_t FormDelta(const LoopSource& source, size_t first, size_t count, float* u) {
  if (source.theta != nullptr && source.residual != nullptr) {
    return FormDelta<true, true>(source, first, count, u);
  }
  if (source.theta != nullptr) return FormDelta<true, false>(source, first, count, u);
  if (source.residual != nullptr) return FormDelta<false, true>(source, first, count, u);
  return FormDelta<false, false>(source, first, count, u);
}

// Adding 1.5·2^23 leaves the nearest integer, ties to even, in the low bits.
SKERRY_BODY void RoundBlock(const float* u, size_t count, float inverse_scale, int8_t* out) {
  constexpr float kShifter = 12582912.0f;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<int32_t>(u[i] * inverse_scale + kShifter);
    out[i] = static_cast<int8_t>(bits - std::bit_cast<int32_t>(kShifter));
  }
}

SKERRY_BODY bool QuantiseInt8(const LoopSource& source, size_t n, uint8_t* scales,
                              int8_t* integers) {
  alignas(32) float u[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const uint32_t largest = FormDelta(source, first, count, u);
    if (largest > kMagnitudeMaxBits) return false;
    const int exponent = ScaleExponent(largest);
    scales[first / kBlock] = static_cast<uint8_t>(exponent - kQuantumExponent);
    RoundBlock(u, count, PowerOfTwo(-exponent), integers + first);
  }
  return true;
}

SKERRY_BODY void AccumulateInt8(const uint8_t* scales, const int8_t* integers, size_t n,
                                int64_t weight, int64_t* sum) {
  const auto small_weight = static_cast<int32_t>(weight);
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const int shift = scales[first / kBlock];
    for (size_t i = first; i < first + count; ++i) {
      sum[i] += static_cast<int64_t>(integers[i] * small_weight) << shift;
    }
  }
}

SKERRY_BODY void DecodeInt8(const uint8_t* scales, const int8_t* integers, size_t n,
                            float* values) {
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const float scale = PowerOfTwo(scales[first / kBlock] + kQuantumExponent);
    for (size_t i = first; i < first + count; ++i) {
      values[i] = static_cast<float>(integers[i]) * scale;
    }
  }
}

// Above 2^23 units a float is a whole number of units already.
SKERRY_BODY float NearestMultiple(float v) {
  constexpr float kWhole = 8388608.0f;
  const float units = v * PowerOfTwo(-kQuantumExponent);
  const auto sign = std::bit_cast<uint32_t>(units) & ~kMagnitudeBits;
  const float magnitude = std::bit_cast<float>(std::bit_cast<uint32_t>(units) & kMagnitudeBits);
  const float rounded = (magnitude + kWhole) - kWhole;
  const float nearest = magnitude < kWhole ? rounded : magnitude;
  const float with_sign = std::bit_cast<float>(std::bit_cast<uint32_t>(nearest) | sign);
  return with_sign * PowerOfTwo(kQuantumExponent) + 0.0f;
}

SKERRY_BODY bool RoundToQuantum(const LoopSource& source, size_t n, float* values) {
  alignas(32) float u[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    if (FormDelta(source, first, count, u) > kMagnitudeMaxBits) return false;
    for (size_t i = 0; i < count; ++i) values[first + i] = NearestMultiple(u[i]);
  }
  return true;
}

// Adding 1.5·2^52 leaves the nearest integer, ties to even, in the low bits.
SKERRY_BODY void AccumulatePlain(const float* values, size_t n, int64_t weight, int64_t* sum) {
  constexpr double kShifter = 0x1.8p52;
  for (size_t i = 0; i < n; ++i) {
    const double units = static_cast<double>(values[i]) * (1.0 / kQuantum);
    sum[i] +=
        (std::bit_cast<int64_t>(units + kShifter) - std::bit_cast<int64_t>(kShifter)) * weight;
  }
}

SKERRY_BODY bool InRange(const float* values, size_t n) {
  int32_t largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(values[i]) & kMagnitudeBits);
    largest = bits > largest ? bits : largest;
  }
  return static_cast<uint32_t>(largest) <= kMagnitudeMaxBits;
}

// int64 → double in two exact halves and one rounding, equal to the conversion instruction, which
// AVX2 lacks for vectors.
SKERRY_BODY void ScaleSum(const int64_t* sum, size_t n, double scale, float* mean) {
  constexpr double kHighBias = 0x1p84 + 0x1p63 + 0x1p52;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t biased = static_cast<uint64_t>(sum[i]) ^ (1ULL << 63);
    const auto high = std::bit_cast<double>((biased >> 32) | 0x4530000000000000ULL);
    const auto low = std::bit_cast<double>((biased & 0xffffffffULL) | 0x4330000000000000ULL);
    mean[i] = static_cast<float>(((high - kHighBias) + low) * scale);
  }
}

// One family of wrappers: `suffix` names it, `attribute` selects the instruction set.
#define SKERRY_LOOPS(suffix, attribute)                                                            \
  attribute bool QuantiseInt8##suffix(const LoopSource& s, size_t n, uint8_t* scales, int8_t* k) { \
    return QuantiseInt8(s, n, scales, k);                                                          \
  }                                                                                                \
  attribute void AccumulateInt8##suffix(const uint8_t* scales, const int8_t* k, size_t n,          \
                                        int64_t weight, int64_t* sum) {                            \
    AccumulateInt8(scales, k, n, weight, sum);                                                     \
  }                                                                                                \
  attribute void DecodeInt8##suffix(const uint8_t* scales, const int8_t* k, size_t n, float* v) {  \
    DecodeInt8(scales, k, n, v);                                                                   \
  }                                                                                                \
  attribute bool RoundToQuantum##suffix(const LoopSource& s, size_t n, float* v) {                 \
    return RoundToQuantum(s, n, v);                                                                \
  }                                                                                                \
  attribute void AccumulatePlain##suffix(const float* v, size_t n, int64_t weight, int64_t* sum) { \
    AccumulatePlain(v, n, weight, sum);                                                            \
  }                                                                                                \
  attribute bool InRange##suffix(const float* v, size_t n) {                                       \
    return InRange(v, n);                                                                          \
  }                                                                                                \
  attribute void ScaleSum##suffix(const int64_t* sum, size_t n, double scale, float* mean) {       \
    ScaleSum(sum, n, scale, mean);                                                                 \
  }                                                                                                \
  constexpr CodecLoops kLoops##suffix = {                                                          \
      QuantiseInt8##suffix,    AccumulateInt8##suffix, DecodeInt8##suffix, RoundToQuantum##suffix, \
      AccumulatePlain##suffix, InRange##suffix,        ScaleSum##suffix};

SKERRY_LOOPS(Baseline, )
#if defined(__x86_64__)
SKERRY_LOOPS(Avx2, [[gnu::target("avx2")]])
#endif

}  // namespace

const CodecLoops& BaselineLoops() {
  return kLoopsBaseline;
}

const CodecLoops* Avx2Loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &kLoopsAvx2;
#endif
  return nullptr;
}

const CodecLoops& BestLoops() {
  static const CodecLoops& best = Avx2Loops() != nullptr ? *Avx2Loops() : BaselineLoops();
  return best;
}

}  // namespace skerry
