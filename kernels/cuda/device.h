// An open device as the plug-in's operations see it, and the few things they all need.
#pragma once

#include <bit>
#include <cstdint>

#include "device_platform.h"
#include "kernels/plugin/table.h"

namespace skerry {

struct GpuStaging;

// Made and ended by OpenGpu and CloseGpu, of which the platform has the bodies.
struct GpuDevice {
  int32_t index = 0;                 // the runtime's
  int32_t processors = 1;            // multiprocessors
  int32_t shared_bytes = 100 << 10;  // of shared memory that each of them has
  cuda::Stream stream = {};
  // For what one operation keeps between its kernels; grows when an operation needs more, which is
  // in the first step with a shape.
  void* scratch = nullptr;
  int64_t scratch_bytes = 0;
  void* products = nullptr;       // the library's
  GpuStaging* staging = nullptr;  // the platform's: what copies from and to the host pass through
  GpuText failure = {};  // the first; stays, and is told by every synchronisation from then on
};

namespace cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;
inline constexpr unsigned kLanes = 32;

inline int64_t CeilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Null: there is none.
inline void NoteFailure(GpuDevice& device, const char* words) {
  char* text = device.failure.text;
  if (words == nullptr || text[0] != '\0') return;
  for (size_t i = 0; words[i] != '\0' && i + 1 < sizeof(device.failure.text); ++i)
    text[i] = words[i];
}

// On the device's stream; what the platform refuses is noted.
template <typename... Parameters, typename... Arguments>
void Launch(GpuDevice& device, const LaunchShape& shape, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  NoteFailure(device, Launch(device.stream, shape, kernel, arguments...));
}

// The device's scratch with room for so many bytes; null, and noted, when there is no memory.
// Contents arbitrary; the next operation of the stream may take it.
template <typename T>
T* Scratch(GpuDevice& device, int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  if (bytes > device.scratch_bytes) {
    GiveMemory(device.scratch);
    device.scratch = TakeMemory(static_cast<size_t>(bytes));
    device.scratch_bytes = device.scratch == nullptr ? 0 : bytes;
  }
  if (device.scratch == nullptr) NoteFailure(device, "no GPU memory for scratch");
  return static_cast<T*>(device.scratch);
}

// Copies from and to the host's memory, in the stream's order, of which the platform has the
// bodies. What is copied in may be changed on return; CopyOut returns when all is there.
void CopyIn(GpuDevice& device, const void* host, void* to, size_t bytes);
void CopyOut(GpuDevice& device, const void* from, void* host, size_t bytes);

// Rows begin on borders of 16 bytes: a thread may take as many of one at once.
inline bool Aligned(const GpuTensor& x) {
  const int64_t row_bytes = x.step * (x.bf16 != 0 ? 2 : 4);
  return reinterpret_cast<uintptr_t>(x.values) % 16 == 0 && row_bytes % 16 == 0;
}

// Values of a tensor's row, of either type; which one is the same for a whole kernel.
struct Row {
  void* at;
  bool bf16;

  __device__ __forceinline__ float operator[](int64_t i) const {
    if (!bf16) return static_cast<const float*>(at)[i];
    return std::bit_cast<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(at)[i]) << 16);
  }
  __device__ __forceinline__ void Set(int64_t i, float value) const {
    if (!bf16) {
      static_cast<float*>(at)[i] = value;
    } else {
      static_cast<uint16_t*>(at)[i] = static_cast<uint16_t>(PackBf16(value, 0));
    }
  }
};

__device__ __forceinline__ Row RowAt(const GpuTensor& x, int64_t row, int64_t column = 0) {
  const int64_t bytes = (row * x.step + column) * (x.bf16 != 0 ? 2 : 4);
  return {static_cast<char*>(x.values) + bytes, x.bf16 != 0};
}

template <typename T>
__device__ __forceinline__ T WarpSum(T value) {
  for (unsigned bits = kLanes / 2; bits > 0; bits /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, bits);
  }
  return value;
}

__device__ __forceinline__ float WarpMax(float value) {
  for (unsigned bits = kLanes / 2; bits > 0; bits /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, bits));
  }
  return value;
}

// What a block needs to add up one value of each of its threads, for all of them; the same order
// every time.
template <typename T>
struct BlockSums {
  T of_warp[kLanes];
};

template <typename T>
__device__ __forceinline__ T BlockSum(T value, BlockSums<T>& sums) {
  const unsigned warps = blockDim.x / kLanes;
  value = WarpSum(value);
  __syncthreads();  // the sums of a call before have been read
  if (threadIdx.x % kLanes == 0) sums.of_warp[threadIdx.x / kLanes] = value;
  __syncthreads();
  T sum = sums.of_warp[0];
  for (unsigned w = 1; w < warps; ++w) sum += sums.of_warp[w];
  return sum;
}

}  // namespace cuda

// Bodies of the platform: kernels/cuda/runtime.cu, tests/cuda_on_host/runtime.cc.
int32_t CountGpus(GpuText* why);
GpuDevice* OpenGpu(int32_t index, GpuText* why);
void CloseGpu(GpuDevice* device);
void EnterGpu(GpuDevice* device);  // makes it the calling thread's current one
void NameGpu(GpuDevice* device, GpuText* out);
void ProfileGpu(GpuDevice* device, GpuText* out);
int64_t FreeGpuMemory(GpuDevice* device);
void MeasureGpuWay(GpuDevice* from, GpuDevice* to, GpuWay* out);
bool SynchronizeGpu(GpuDevice* device, GpuText* why);
GpuLane* OpenGpuLane(GpuDevice* device, int64_t bytes);
void CloseGpuLane(GpuDevice* device, GpuLane* lane);
void* GpuLaneMemory(GpuDevice* device, GpuLane* lane);
int64_t FetchOnLane(GpuDevice* device, GpuLane* lane, const void* from, void* host, int64_t bytes);
int64_t SendOnLane(GpuDevice* device, GpuLane* lane, const void* host, void* to, int64_t bytes);
void WaitForLane(GpuDevice* device, GpuLane* lane, int64_t copies);
GpuMark* MarkGpu(GpuDevice* device);
void AwaitGpuMark(GpuDevice* device, GpuMark* mark);
void MultiplyOnGpu(GpuDevice* device, const GpuProduct* args);

// Operations, by file.
namespace cuda {
void Cast(GpuDevice*, const GpuTensor* x, const GpuTensor* y);
void EmbeddingForward(GpuDevice*, const int32_t* host_tokens, int64_t rows, int64_t width,
                      const float* table, float* out);
void EmbeddingBackward(GpuDevice*, const GpuScatter*);
void RmsNormForward(GpuDevice*, const GpuRmsNorm*);
void RmsNormBackward(GpuDevice*, const GpuRmsNormGradient*);
void Rope(GpuDevice*, const GpuRope*);
void AddBias(GpuDevice*, const float* bias, const GpuTensor* y);
void SumRows(GpuDevice*, const GpuTensor* x, float* sums);
void SwigluForward(GpuDevice*, const GpuSwiglu*);
void SwigluBackward(GpuDevice*, const GpuSwiglu*);
void CrossEntropy(GpuDevice*, const GpuCrossEntropy*);
void LogitStatistics(GpuDevice*, const GpuCrossEntropy*);
void Add(GpuDevice*, const float* x, float* y, int64_t n);
void Fill(GpuDevice*, float* y, float value, int64_t n);
void SumsOfSquares(GpuDevice*, const float* x, const GpuRange* host_ranges, int64_t ranges,
                   double* host_sums);
void Update(GpuDevice*, const GpuUpdate*);
void AttentionForward(GpuDevice*, const GpuAttention*);
void AttentionBackward(GpuDevice*, const GpuAttention*);
}  // namespace cuda

// compression/cuda
extern const GpuCodecTable kGpuCodecs;

}  // namespace skerry
