// The codecs' table, and decoding: a thread to a value, but for top-k.
#include "compression/cuda/values.h"

namespace skerry {
namespace cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kBlocksMax = 132 * 16;

__device__ __forceinline__ bool BitAt(const uint8_t* mask, int64_t i) {
  return ((mask[i / 8] >> (i % 8)) & 1) != 0;
}

// UnitsAt and ValueAt of value i, as the CPU's accumulate and decode loops have them.
struct PlainCode {
  Parts parts;
  __device__ float Stored(int64_t i) const {
    return reinterpret_cast<const float*>(parts.at[0])[i];
  }
  __device__ int64_t UnitsAt(int64_t i) const { return UnitsOf(Stored(i)); }
  __device__ float ValueAt(int64_t i) const { return NearestMultiple(Stored(i)); }
};

struct Bf16Code {
  Parts parts;
  __device__ float Stored(int64_t i) const {
    const uint32_t half = reinterpret_cast<const uint16_t*>(parts.at[0])[i];
    return std::bit_cast<float>(half << 16);
  }
  __device__ int64_t UnitsAt(int64_t i) const { return UnitsOf(Stored(i)); }
  __device__ float ValueAt(int64_t i) const { return NearestMultiple(Stored(i)); }
};

struct Int8Code {
  Parts parts;
  __device__ int Integer(int64_t i) const { return static_cast<int8_t>(parts.at[1][i]); }
  __device__ int64_t UnitsAt(int64_t i) const {
    return static_cast<int64_t>(Integer(i)) << parts.at[0][i / kSymbolBlock];
  }
  __device__ float ValueAt(int64_t i) const {
    return static_cast<float>(Integer(i)) *
           PowerOfTwo(parts.at[0][i / kSymbolBlock] + kQuantumExponent);
  }
};

struct Int4Code {
  Parts parts;
  int64_t n;
  __device__ int Integer(int64_t i) const {
    const int64_t first = i / kSymbolBlock * kSymbolBlock, left = n - first;
    const int64_t half = ((left < kSymbolBlock ? left : kSymbolBlock) + 1) / 2, at = i - first;
    const uint8_t pair = parts.at[1][first / 2 + at % half];
    return (((at < half ? pair : pair >> 4) & 15) ^ 8) - 8;
  }
  __device__ int64_t UnitsAt(int64_t i) const {
    return static_cast<int64_t>(Integer(i)) << parts.at[0][i / kSymbolBlock];
  }
  __device__ float ValueAt(int64_t i) const {
    return static_cast<float>(Integer(i)) *
           PowerOfTwo(parts.at[0][i / kSymbolBlock] + kQuantumExponent);
  }
};

struct SignCode {
  Parts parts;
  __device__ int64_t UnitsAt(int64_t i) const {
    const int64_t units = StepUnits(parts.at[0][i / kSymbolBlock]);
    return BitAt(parts.at[1], i) ? -units : units;
  }
  __device__ float ValueAt(int64_t i) const {
    return WithSign(StepValue(parts.at[0][i / kSymbolBlock]), BitAt(parts.at[1], i));
  }
};

struct TernaryCode {
  Parts parts;
  __device__ int64_t UnitsAt(int64_t i) const {
    if (!BitAt(parts.at[0], i)) return 0;
    const int64_t units = StepUnits(parts.at[2][i / kSymbolBlock]);
    return BitAt(parts.at[1], i) ? -units : units;
  }
  __device__ float ValueAt(int64_t i) const {
    if (!BitAt(parts.at[0], i)) return 0;
    return WithSign(StepValue(parts.at[2][i / kSymbolBlock]), BitAt(parts.at[1], i));
  }
};

template <typename Code>
__global__ void AccumulateKernel(Code code, int64_t n, int64_t weight, int64_t* sum) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    sum[i] += code.UnitsAt(i) * weight;
  }
}

template <typename Code>
__global__ void DecodeKernel(Code code, int64_t n, float* values) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    values[i] = code.ValueAt(i);
  }
}

LaunchShape ShapeFor(int64_t n) {
  const int64_t blocks = CeilDivide(n, kThreads);
  return {dim3{static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)}, kThreads, 0};
}

// Calls run(code) with the code of a codec but top-k.
template <typename Run>
void WithCode(DeltaCodec codec, int64_t n, const uint8_t* symbols, Run&& run) {
  const Parts parts = Parts::Of(codec, n, symbols);
  if (codec == DeltaCodec::kNone) return run(PlainCode{parts});
  if (codec == DeltaCodec::kBf16) return run(Bf16Code{parts});
  if (codec == DeltaCodec::kInt8) return run(Int8Code{parts});
  if (codec == DeltaCodec::kInt4) return run(Int4Code{parts, n});
  if (codec == DeltaCodec::kSign) return run(SignCode{parts});
  run(TernaryCode{parts});
}

int64_t SymbolBytesOf(int32_t codec, int64_t n) {
  return SymbolBytes(static_cast<DeltaCodec>(codec), n);
}

void Encode(GpuDevice* device, int32_t number, const GpuDelta* delta, uint8_t* symbols,
            uint32_t* voided) {
  const auto codec = static_cast<DeltaCodec>(number);
  EnterGpu(device);
  if (delta->n == 0) return;
  if (codec == DeltaCodec::kTopK) return EncodeTopK(*device, *delta, symbols, voided);
  if (codec == DeltaCodec::kTernary) return EncodeTernary(*device, *delta, symbols, voided);
  EncodeBlocks(*device, codec, *delta, symbols, voided);
}

void Accumulate(GpuDevice* device, int32_t number, int64_t n, const uint8_t* symbols,
                int64_t weight, int64_t* sum) {
  const auto codec = static_cast<DeltaCodec>(number);
  EnterGpu(device);
  if (n == 0) return;
  if (codec == DeltaCodec::kTopK) return AccumulateTopK(*device, n, symbols, weight, sum);
  WithCode(codec, n, symbols, [&](const auto& code) {
    Launch(*device, ShapeFor(n), AccumulateKernel<std::decay_t<decltype(code)>>, code, n, weight,
           sum);
  });
}

void Decode(GpuDevice* device, int32_t number, int64_t n, const uint8_t* symbols, float* values) {
  const auto codec = static_cast<DeltaCodec>(number);
  EnterGpu(device);
  if (n == 0) return;
  if (codec == DeltaCodec::kTopK) return DecodeTopK(*device, n, symbols, values);
  WithCode(codec, n, symbols, [&](const auto& code) {
    Launch(*device, ShapeFor(n), DecodeKernel<std::decay_t<decltype(code)>>, code, n, values);
  });
}

}  // namespace
}  // namespace cuda

const GpuCodecTable kGpuCodecs = {&cuda::SymbolBytesOf, &cuda::Encode, &cuda::Accumulate,
                                  &cuda::Decode};

}  // namespace skerry
