// Forming and rounding deltas on a GPU: the arithmetic of value_loops.h, value by value, compiled
// without contraction, so that messages are those of the CPU to the last bit.
#pragma once

#include <bit>
#include <cstdint>

#include "compression/cuda/symbols.h"
#include "compression/fixed_point.h"
#include "compression/step_scale.h"
#include "kernels/cuda/device.h"

namespace skerry::cuda {

inline constexpr uint32_t kMagnitudeMask = 0x7fffffff;
inline constexpr uint32_t kMagnitudeMaxBits = std::bit_cast<uint32_t>(kMagnitudeMax);
inline constexpr int kValuesALane = static_cast<int>(kSymbolBlock / kLanes);

__device__ __forceinline__ float DeltaAt(const GpuDelta& d, int64_t i) {
  float u = d.base[i];
  if (d.theta != nullptr) u -= d.theta[i];
  if (d.residual != nullptr) u += d.residual[i];
  return u;
}

__device__ __forceinline__ uint32_t MagnitudeBits(float u) {
  return std::bit_cast<uint32_t>(u) & kMagnitudeMask;
}

__device__ __forceinline__ uint32_t WarpMaxBits(uint32_t bits) {
  for (unsigned step = kLanes / 2; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, bits, step);
    bits = other > bits ? other : bits;
  }
  return bits;
}

// A block of 256 values in a warp: lane l has values l, l + 32, …; zeros past the end.
struct LaneBlock {
  float u[kValuesALane];
  int64_t first;     // value of the message
  int count;         // of the block
  uint32_t largest;  // magnitude, as bits

  // False for the warps past the last block.
  __device__ __forceinline__ bool Form(const GpuDelta& d, int64_t block) {
    first = block * kSymbolBlock;
    if (first >= d.n) return false;
    count =
        d.n - first < kSymbolBlock ? static_cast<int>(d.n - first) : static_cast<int>(kSymbolBlock);
    largest = 0;
#pragma unroll
    for (int j = 0; j < kValuesALane; ++j) {
      u[j] = Place(j) < count ? DeltaAt(d, first + Place(j)) : 0;
      largest = MagnitudeBits(u[j]) > largest ? MagnitudeBits(u[j]) : largest;
    }
    largest = WarpMaxBits(largest);
    return true;
  }
  __device__ __forceinline__ int Place(int j) const {
    return j * static_cast<int>(kLanes) + static_cast<int>(threadIdx.x % kLanes);
  }
};

__device__ __forceinline__ float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
}

// The smallest exponent at which the largest magnitude rounds to at most 127 (`drop` 6, `carry_at`
// 0x7f0000) or 7 (2, 0x700000).
__device__ __forceinline__ int ScaleExponent(uint32_t absmax_bits, int drop, uint32_t carry_at) {
  const int exponent = static_cast<int>(absmax_bits >> 23) - 127 - drop;
  const int carried = exponent + ((absmax_bits & 0x7fffff) >= carry_at ? 1 : 0);
  return carried > kQuantumExponent ? carried : kQuantumExponent;
}

// Adding 1.5·2^23 leaves the nearest integer, ties to even, in the low bits.
__device__ __forceinline__ int RoundToInteger(float scaled) {
  constexpr float kShifter = 12582912.0f;
  return static_cast<int8_t>(std::bit_cast<int32_t>(scaled + kShifter) -
                             std::bit_cast<int32_t>(kShifter));
}

// The nearest multiple of the quantum, ties to even, never −0.
__device__ __forceinline__ float NearestMultiple(float v) {
  constexpr float kWhole = 0x1p23f * static_cast<float>(kQuantum);
  if (!(MagnitudeBits(v) < std::bit_cast<uint32_t>(kWhole))) return v;
  const float shifter = std::bit_cast<float>((std::bit_cast<uint32_t>(v) & ~kMagnitudeMask) |
                                             std::bit_cast<uint32_t>(kWhole));
  return (v + shifter) - shifter;
}

__device__ __forceinline__ int64_t UnitsOf(float value) {
  return llrint(static_cast<double>(value) * (1.0 / kQuantum));
}

__device__ __forceinline__ float WithSign(float magnitude, bool minus) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (minus ? 1u << 31 : 0u));
}

// Symbols of one message, by codec.
struct Parts {
  const uint8_t* at[kSymbolParts];

  static Parts Of(DeltaCodec codec, int64_t n, const uint8_t* symbols) {
    Parts parts;
    for (int i = 0; i < kSymbolParts; ++i) parts.at[i] = symbols + SymbolPartBegin(codec, i, n);
    return parts;
  }
};

// The encoders, by file: blocks.cu, ternary.cu, top_k.cu.
void EncodeBlocks(GpuDevice&, DeltaCodec, const GpuDelta&, uint8_t* symbols, uint32_t* voided);
void EncodeTernary(GpuDevice&, const GpuDelta&, uint8_t* symbols, uint32_t* voided);
void EncodeTopK(GpuDevice&, const GpuDelta&, uint8_t* symbols, uint32_t* voided);
void AccumulateTopK(GpuDevice&, int64_t n, const uint8_t* symbols, int64_t weight, int64_t* sum);
void DecodeTopK(GpuDevice&, int64_t n, const uint8_t* symbols, float* values);

}  // namespace skerry::cuda
