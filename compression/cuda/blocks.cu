// Encoders of fixed length: a warp to a block of 256 values, read once.
#include "compression/cuda/values.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr int64_t kWarps = kThreads / kLanes;

__device__ __forceinline__ int64_t BlockOfWarp() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
}

// False for blocks of nothing; notes void ones.
__device__ __forceinline__ bool FormBlock(const GpuDelta& d, uint32_t* voided, LaneBlock* block) {
  if (!block->Form(d, BlockOfWarp())) return false;
  if (block->largest > kMagnitudeMaxBits) *voided = 1;
  return true;
}

__global__ void PlainKernel(GpuDelta d, float* values, uint32_t* voided) {
  LaneBlock block;
  if (!FormBlock(d, voided, &block)) return;
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    if (block.Place(j) < block.count) {
      values[block.first + block.Place(j)] = NearestMultiple(block.u[j]);
    }
  }
}

__global__ void Bf16Kernel(GpuDelta d, uint16_t* halves, uint32_t* voided) {
  LaneBlock block;
  if (!FormBlock(d, voided, &block)) return;
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    if (block.Place(j) >= block.count) continue;
    const uint32_t bits = std::bit_cast<uint32_t>(NearestMultiple(block.u[j]));
    halves[block.first + block.Place(j)] =
        static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

__global__ void Int8Kernel(GpuDelta d, uint8_t* scales, uint8_t* integers, uint32_t* voided) {
  LaneBlock block;
  if (!FormBlock(d, voided, &block)) return;
  const int exponent = ScaleExponent(block.largest, 6, 0x7f0000);
  if (threadIdx.x % kLanes == 0) {
    scales[block.first / kSymbolBlock] = static_cast<uint8_t>(exponent - kQuantumExponent);
  }
  const float inverse = PowerOfTwo(-exponent);
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    if (block.Place(j) < block.count) {
      integers[block.first + block.Place(j)] =
          static_cast<uint8_t>(RoundToInteger(block.u[j] * inverse));
    }
  }
}

struct Int4Shared {
  int8_t integers[kWarps][kSymbolBlock];
};

// Pair i of a block of c values holds values i and i + ⌈c / 2⌉.
__global__ void Int4Kernel(GpuDelta d, uint8_t* scales, uint8_t* pairs, uint32_t* voided) {
  LaneBlock block;
  int8_t* integers = Shared<Int4Shared>().integers[threadIdx.x / kLanes];
  if (!FormBlock(d, voided, &block)) return;
  int exponent = ScaleExponent(block.largest, 2, 0x700000);
  if (exponent > kInt4ExponentMax) exponent = kInt4ExponentMax;
  if (threadIdx.x % kLanes == 0) {
    scales[block.first / kSymbolBlock] = static_cast<uint8_t>(exponent - kQuantumExponent);
  }
  const float inverse = PowerOfTwo(-exponent);
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    const int rounded = RoundToInteger(block.u[j] * inverse);  // 0 past the end
    integers[block.Place(j)] = static_cast<int8_t>(rounded > 7 ? 7 : rounded < -7 ? -7 : rounded);
  }
  __syncwarp();
  const int half = (block.count + 1) / 2;
  for (int i = static_cast<int>(threadIdx.x % kLanes); i < half; i += static_cast<int>(kLanes)) {
    const int low = integers[i], high = i + half < block.count ? integers[i + half] : 0;
    pairs[block.first / 2 + i] = static_cast<uint8_t>((low & 15) | (high * 16));
  }
}

// Σ |u| of the block: 16 sums of every 16th value, halved together four times (loops.h).
__device__ __forceinline__ float MagnitudeSum(const LaneBlock& block) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    const float even = fabsf(block.u[j]);
    sum += even;  // of lanes below 16
    sum += __shfl_down_sync(kWholeWarp, even, 16);
  }
  for (unsigned half = 8; half > 0; half /= 2) sum += __shfl_down_sync(kWholeWarp, sum, half);
  return __shfl_sync(kWholeWarp, sum, 0);
}

__global__ void SignKernel(GpuDelta d, uint8_t* steps, uint8_t* signs, uint32_t* voided) {
  LaneBlock block;
  if (!FormBlock(d, voided, &block)) return;
  const unsigned lane = threadIdx.x % kLanes;
  const float sum = MagnitudeSum(block);
  // A void block's sum may be no number, of which there is no step.
  const bool fine = block.largest <= kMagnitudeMaxBits;
  const uint8_t step = fine ? NearestStep(sum / static_cast<float>(block.count)) : 0;
  if (lane == 0) steps[block.first / kSymbolBlock] = step;
  uint32_t own = 0;  // the word of which this lane writes a byte
#pragma unroll
  for (int j = 0; j < kValuesALane; ++j) {
    const bool minus = step != 0 && std::bit_cast<uint32_t>(block.u[j]) >> 31 != 0;
    const uint32_t word = __ballot_sync(kWholeWarp, minus && block.Place(j) < block.count);
    if (lane / 4 == static_cast<unsigned>(j)) own = word;
  }
  if (static_cast<int>(8 * lane) < block.count) {
    signs[block.first / 8 + lane] = static_cast<uint8_t>(own >> (lane % 4 * 8));
  }
}

}  // namespace

void EncodeBlocks(GpuDevice& device, DeltaCodec codec, const GpuDelta& d, uint8_t* symbols,
                  uint32_t* voided) {
  LaunchShape shape = {dim3{static_cast<unsigned>(CeilDivide(SymbolBlocks(d.n), kWarps))}, kThreads,
                       0};
  uint8_t* second = symbols + SymbolPartBegin(codec, 1, d.n);
  if (codec == DeltaCodec::kNone) {
    Launch(device, shape, PlainKernel, d, reinterpret_cast<float*>(symbols), voided);
  } else if (codec == DeltaCodec::kBf16) {
    Launch(device, shape, Bf16Kernel, d, reinterpret_cast<uint16_t*>(symbols), voided);
  } else if (codec == DeltaCodec::kInt8) {
    Launch(device, shape, Int8Kernel, d, symbols, second, voided);
  } else if (codec == DeltaCodec::kInt4) {
    shape.shared_bytes = sizeof(Int4Shared);
    Launch(device, shape, Int4Kernel, d, symbols, second, voided);
  } else {
    Launch(device, shape, SignKernel, d, symbols, second, voided);
  }
}

}  // namespace skerry::cuda
