// What the kernels ask of their platform, on a GPU: warp-wide tensor-core operations, asynchronous
// copies, shared memory, launches, and the runtime's memory and stream.
//
// tests/cuda_on_host has a second file of this name, in which a thread is a fiber and the same
// operations are written out. A target picks one by its include path; kernel text includes
// "device_platform.h" and knows no other header of CUDA.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace skerry::cuda {

using Stream = cudaStream_t;

struct LaunchShape {
  dim3 grid;
  unsigned threads = 0;  // per block, a multiple of 32
  size_t shared_bytes = 0;
};

// Why the runtime refuses a call; null: it does not. Not cudaGetLastError: that is one for all
// devices of a thread, and also has what is no failure, as that a stream has not done its work yet.
inline const char* Refusal(cudaError_t answer) {
  return answer == cudaSuccess ? nullptr : cudaGetErrorString(answer);
}

template <typename... Parameters, typename... Arguments>
const char* Launch(Stream stream, const LaunchShape& shape, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  // Both of the current device; to say them again costs less than to remember where they were said.
  constexpr size_t kSharedByDefault = 48 << 10, kMuchShared = 24 << 10;
  if (shape.shared_bytes > kSharedByDefault) {
    const cudaError_t allowed = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    if (allowed != cudaSuccess) return Refusal(allowed);
  }
  if (shape.shared_bytes > kMuchShared) {
    // A hint: what these read twice they copy, and need no cache for it.
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  return Refusal(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// The block's shared memory as one T; LaunchShape::shared_bytes is sizeof(T). Contents arbitrary.
template <typename T>
__device__ __forceinline__ T& Shared() {
  extern __shared__ __align__(128) unsigned char skerry_shared[];
  return *reinterpret_cast<T*>(skerry_shared);
}

__device__ __forceinline__ unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Copies of a thread to shared memory that arrive while it goes on: 16 or 4 bytes on borders of as
// many, zeros where nothing is `there` (the address must be a valid one all the same). What was
// begun since the last CommitCopies is a group; WaitForCopies waits for all groups of this thread
// but the newest kNewest, and a barrier must follow before other threads read.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* global, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyAsync4(void* shared, const void* global, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(there ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kNewest>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

// 2^x to two units in the last place; 0 for what a float can only hold as a subnormal.
__device__ __forceinline__ float ExpTwo(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 1 / x to one unit in the last place; 0 for what a float can only hold as a subnormal.
__device__ __forceinline__ float Reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Two floats rounded to nearest even, `low` in the low half.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Four 8 × 8 matrices of 16-bit values: lane 8i + j gives the address of row j of matrix i; lane l
// gets of matrix i the values 2(l mod 4) and the next of row l / 4 in out[i].
__device__ __forceinline__ void LoadMatrices(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// The same of the transposed matrices.
__device__ __forceinline__ void LoadTransposed(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// c [16, 8] += a [16, 16] · b [16, 8], bf16 products summed in float32, fragments as the PTX manual
// draws them for m16n8k16.
__device__ __forceinline__ void MultiplyAccumulate(float (&c)[4], const uint32_t (&a)[4],
                                                   uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Memory and copies of the current device.
inline void* TakeMemory(size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}
inline void GiveMemory(void* memory) {
  cudaFree(memory);
}
inline const char* SetZero(Stream stream, void* memory, size_t bytes) {
  return Refusal(cudaMemsetAsync(memory, 0, bytes, stream));
}
inline const char* CopyWithin(Stream stream, const void* from, void* to, size_t bytes) {
  return Refusal(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

}  // namespace skerry::cuda
