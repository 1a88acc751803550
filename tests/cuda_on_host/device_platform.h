// The host's side of kernels/cuda/platform/device_platform.h: CUDA's words and the platform's
// operations as their documentation defines them, for fibers (block_runner.h). Kernel text is
// compiled with this in place of nvcc's headers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_on_host/block_runner.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

using dim3 = skerry::cuda::Index3;
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline skerry::cuda::Index3 threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() {
  skerry::cuda::MeetBlock();
}
inline void __syncwarp() {
  skerry::cuda::MeetWarp(skerry::cuda::WarpMeeting::kSync, {});
}

template <typename T>
T FromLane(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  using namespace skerry::cuda;
  if (mask != 0xffffffffu) BrokenRule("a shuffle of part of a warp");
  LaneWords own;
  std::memcpy(own.words, &value, sizeof(T));
  const LaneWords* all = MeetWarp(WarpMeeting::kShuffle, own);
  std::memcpy(&value, all[source % kWarp].words, sizeof(T));
  return value;
}
template <typename T>
T __shfl_sync(unsigned mask, T value, unsigned lane) {
  return FromLane(mask, value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, unsigned bits) {
  return FromLane(mask, value, skerry::cuda::OwnLane() ^ bits);
}
// Lanes whose source would be outside the warp keep their value.
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned down) {
  const unsigned lane = skerry::cuda::OwnLane();
  return FromLane(mask, value, lane + down < skerry::cuda::kWarp ? lane + down : lane);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned up) {
  const unsigned lane = skerry::cuda::OwnLane();
  return FromLane(mask, value, lane >= up ? lane - up : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  using namespace skerry::cuda;
  if (mask != 0xffffffffu) BrokenRule("a vote of part of a warp");
  LaneWords own;
  own.words[0] = vote ? 1 : 0;
  const LaneWords* all = MeetWarp(WarpMeeting::kVote, own);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    votes |= static_cast<unsigned>(all[lane].words[0]) << lane;
  return votes;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __popcll(unsigned long long bits) {
  return std::popcount(bits);
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline int __ffsll(long long bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(bits)) + 1;
}
inline int __clz(int bits) {
  return std::countl_zero(static_cast<unsigned>(bits));
}

namespace skerry::cuda {

using Stream = int;

struct LaunchShape {
  dim3 grid;
  unsigned threads = 0;
  size_t shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
const char* Launch(Stream, const LaunchShape& shape, void (*kernel)(Parameters...),
                   const Arguments&... arguments) {
  // Of every device: CUDA's programming guide, "Compute Capabilities".
  constexpr unsigned kRowsMax = 65535, kColumnsMax = 0x7fffffff;
  constexpr size_t kSharedMax = 99 << 10;  // of the least, compute capability 8.6
  const dim3& grid = shape.grid;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kColumnsMax || grid.y > kRowsMax ||
      grid.z > kRowsMax || shape.shared_bytes > kSharedMax) {
    return "invalid configuration argument";
  }
  const std::lock_guard one_at_a_time(OneGridAtATime());
  gridDim = shape.grid;
  blockDim = {shape.threads, 1, 1};
  for (unsigned z = 0; z < shape.grid.z; ++z) {
    for (unsigned y = 0; y < shape.grid.y; ++y) {
      for (unsigned x = 0; x < shape.grid.x; ++x) {
        blockIdx = {x, y, z};
        RunBlock(shape.threads, shape.shared_bytes,
                 [&] { kernel(static_cast<Parameters>(arguments)...); });
      }
    }
  }
  return nullptr;
}

template <typename T>
T& Shared() {
  return *static_cast<T*>(SharedBytes());
}

inline void CopyAsync16(void* shared, const void* global, bool there) {
  BeginCopy(shared, global, 16, there);
}
inline void CopyAsync4(void* shared, const void* global, bool there) {
  BeginCopy(shared, global, 4, there);
}
inline void CommitCopies() {
  CloseCopies();
}
template <int kNewest>
void WaitForCopies() {
  AwaitCopies(kNewest);
}

inline float ExpTwo(float x) {
  return std::exp2(x);
}
inline float Reciprocal(float x) {
  return 1 / x;
}

inline uint32_t RoundBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;  // as the conversion instruction
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
inline float WidenBf16(uint32_t half) {
  return std::bit_cast<float>(half << 16);
}
inline uint32_t PackBf16(float low, float high) {
  return RoundBf16(low) | RoundBf16(high) << 16;
}

inline const uint16_t* RowOf(const LaneWords* lanes, unsigned matrix, unsigned row) {
  return reinterpret_cast<const uint16_t*>(lanes[8 * matrix + row].words[0]);
}
inline const LaneWords* MeetAtMatrices(const void* row) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) BrokenRule("ldmatrix of a row off 16 bytes");
  LaneWords own;
  own.words[0] = reinterpret_cast<uintptr_t>(row);
  return MeetWarp(WarpMeeting::kLoadMatrices, own);
}
inline void LoadMatrices(uint32_t (&out)[4], const void* row) {
  const LaneWords* lanes = MeetAtMatrices(row);
  const unsigned lane = OwnLane();
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(&out[i], RowOf(lanes, i, lane / 4) + 2 * (lane % 4), 4);
  }
}
inline void LoadTransposed(uint32_t (&out)[4], const void* row) {
  const LaneWords* lanes = MeetAtMatrices(row);
  const unsigned lane = OwnLane();
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t low = RowOf(lanes, i, 2 * (lane % 4))[lane / 4];
    const uint32_t high = RowOf(lanes, i, 2 * (lane % 4) + 1)[lane / 4];
    out[i] = low | high << 16;
  }
}

// Element (row, k) of the 16 × 16 factor, of which lane 4g + t holds the pairs (g, 2t), (g + 8,
// 2t), (g, 2t + 8), (g + 8, 2t + 8).
inline float FactorA(const LaneWords* lanes, unsigned row, unsigned k) {
  const unsigned lane = row % 8 * 4 + k % 8 / 2;
  const unsigned which = row / 8 + k / 8 * 2;
  const uint64_t pairs = lanes[lane].words[which / 2];
  const auto pair = static_cast<uint32_t>(pairs >> (which % 2 * 32));
  return WidenBf16(k % 2 == 0 ? pair & 0xffff : pair >> 16);
}
// Element (k, column) of the 16 × 8 factor: pairs (2t, g), (2t + 8, g).
inline float FactorB(const LaneWords* lanes, unsigned k, unsigned column) {
  const uint64_t pairs = lanes[column * 4 + k % 8 / 2].words[2];
  const auto pair = static_cast<uint32_t>(pairs >> (k / 8 * 32));
  return WidenBf16(k % 2 == 0 ? pair & 0xffff : pair >> 16);
}
inline void MultiplyAccumulate(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  LaneWords own;
  own.words[0] = a[0] | static_cast<uint64_t>(a[1]) << 32;
  own.words[1] = a[2] | static_cast<uint64_t>(a[3]) << 32;
  own.words[2] = b0 | static_cast<uint64_t>(b1) << 32;
  const LaneWords* lanes = MeetWarp(WarpMeeting::kMultiply, own);
  const unsigned lane = OwnLane();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (unsigned k = 0; k < 16; ++k) sum += FactorA(lanes, row, k) * FactorB(lanes, k, column);
    c[i] = sum;
  }
}

inline void* TakeMemory(size_t bytes) {
  constexpr size_t kMost = size_t{1} << 34;
  return bytes > kMost ? nullptr : std::malloc(bytes);
}
inline void GiveMemory(void* memory) {
  std::free(memory);
}
inline const char* SetZero(Stream, void* memory, size_t bytes) {
  std::memset(memory, 0, bytes);
  return nullptr;
}
inline const char* CopyWithin(Stream, const void* from, void* to, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return nullptr;
}

}  // namespace skerry::cuda
