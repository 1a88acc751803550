// Tiles of the attention kernels: rows of a head as bf16 in shared memory, and the fragments that
// tensor cores take of them.
//
// A row of e values is e / 8 chunks of 16 bytes; chunk c of row r lies at c xor (r mod 8), so that
// the eight rows of an ldmatrix fall on different banks.
#pragma once

#include "kernels/cuda/device.h"

namespace skerry::cuda {

inline constexpr unsigned kAttentionThreads = 128;
inline constexpr int kWarpRows = 16;  // of a tile of 64 rows, for each of the four warps

template <int kHead>
__device__ __forceinline__ uint16_t* ChunkAt(uint16_t* tile, int row, int chunk) {
  return tile + row * kHead + ((chunk ^ (row & 7)) << 3);
}

// Eight values as a chunk.
__device__ __forceinline__ uint4 LoadChunk(const float* from) {
  const auto* values = reinterpret_cast<const float4*>(from);
  const float4 low = values[0], high = values[1];
  return {PackBf16(low.x, low.y), PackBf16(low.z, low.w), PackBf16(high.x, high.y),
          PackBf16(high.z, high.w)};
}
__device__ __forceinline__ uint4 LoadChunk(const uint16_t* from) {
  return *reinterpret_cast<const uint4*>(from);
}

// Rows [first, first + kRows) of a tensor's columns from `column` on, of type T, as bf16; zeros
// where they are not below `end`. All threads of the block take part; a barrier must follow.
template <int kRows, int kHead, typename T>
__device__ __forceinline__ void LoadTile(uint16_t* tile, const GpuTensor& from, int64_t first,
                                         int64_t end, int64_t column) {
  constexpr int kChunks = kHead / 8;
  const auto* values = static_cast<const T*>(from.values) + first * from.step + column;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks;
       i += static_cast<int>(kAttentionThreads)) {
    const int row = i / kChunks, chunk = i % kChunks;
    uint4 packed = {0, 0, 0, 0};
    if (first + row < end) packed = LoadChunk(values + row * from.step + chunk * 8);
    *reinterpret_cast<uint4*>(ChunkAt<kHead>(tile, row, chunk)) = packed;
  }
}

// The 16 × 16 factor of rows `row` and columns 16·step of a tile.
template <int kHead>
__device__ __forceinline__ void TakeRows(uint32_t (&a)[4], uint16_t* tile, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x % kLanes), matrix = lane / 8;
  LoadMatrices(a, ChunkAt<kHead>(tile, row + lane % 8 + matrix % 2 * 8, 2 * step + matrix / 2));
}

// Two 16 × 8 factors whose columns are tile rows row … row + 7 and row + 8 … row + 15, their depth
// the columns 16·step.
template <int kHead>
__device__ __forceinline__ void TakeColumns(uint32_t (&b)[4], uint16_t* tile, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x % kLanes), matrix = lane / 8;
  LoadMatrices(b, ChunkAt<kHead>(tile, row + lane % 8 + matrix / 2 * 8, 2 * step + matrix % 2));
}

// Two 16 × 8 factors whose depth is tile rows row … row + 15, their columns the columns 16·pair.
template <int kHead>
__device__ __forceinline__ void TakeDepth(uint32_t (&b)[4], uint16_t* tile, int row, int pair) {
  const int lane = static_cast<int>(threadIdx.x % kLanes), matrix = lane / 8;
  LoadTransposed(b, ChunkAt<kHead>(tile, row + lane % 8 + matrix % 2 * 8, 2 * pair + matrix / 2));
}

// sums [16, 8·kGroups] += rows `row_a` of tile a · (rows 0 … 8·kGroups of tile b)ᵀ.
template <int kGroups, int kHead>
__device__ __forceinline__ void MultiplyTransposed(float (&sums)[kGroups][4], uint16_t* a,
                                                   int row_a, uint16_t* b) {
  // Unrolled whole, the addresses of all steps would not fit the registers of a backward pass.
#pragma unroll 2
  for (int step = 0; step < kHead / 16; ++step) {
    uint32_t left[4];
    TakeRows<kHead>(left, a, row_a, step);
#pragma unroll
    for (int pair = 0; pair < kGroups / 2; ++pair) {
      uint32_t right[4];
      TakeColumns<kHead>(right, b, 16 * pair, step);
      MultiplyAccumulate(sums[2 * pair], left, right[0], right[1]);
      MultiplyAccumulate(sums[2 * pair + 1], left, right[2], right[3]);
    }
  }
}

// out [16, e] += left [16, 8·kGroups], rounded to bf16, · rows 0 … 8·kGroups of `tile`.
template <int kGroups, int kHead>
__device__ __forceinline__ void MultiplyByTile(float (&out)[kHead / 8][4],
                                               const float (&left)[kGroups][4], uint16_t* tile) {
#pragma unroll
  for (int step = 0; step < kGroups / 2; ++step) {
    const float(&low)[4] = left[2 * step];
    const float(&high)[4] = left[2 * step + 1];
    const uint32_t a[4] = {PackBf16(low[0], low[1]), PackBf16(low[2], low[3]),
                           PackBf16(high[0], high[1]), PackBf16(high[2], high[3])};
#pragma unroll
    for (int pair = 0; pair < kHead / 16; ++pair) {
      uint32_t right[4];
      TakeDepth<kHead>(right, tile, 16 * step, pair);
      MultiplyAccumulate(out[2 * pair], a, right[0], right[1]);
      MultiplyAccumulate(out[2 * pair + 1], a, right[2], right[3]);
    }
  }
}

// Row and column within its 16 × 8 piece of value i of a lane's sums.
__device__ __forceinline__ int RowOfSum(int i) {
  return static_cast<int>(threadIdx.x % kLanes) / 4 + i / 2 * 8;
}
__device__ __forceinline__ int ColumnOfSum(int i) {
  return static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
}

__device__ __forceinline__ void StorePair(float* to, float low, float high) {
  *reinterpret_cast<float2*>(to) = {low, high};
}
__device__ __forceinline__ void StorePair(uint16_t* to, float low, float high) {
  *reinterpret_cast<uint32_t*>(to) = PackBf16(low, high);
}

// A warp's sums [16, e] times `factor` to rows from `first` on, as far as they are below `end`.
template <int kHead, typename T>
__device__ __forceinline__ void StoreRows(const float (&sums)[kHead / 8][4],
                                          const float (&factor)[2], const GpuTensor& to,
                                          int64_t first, int64_t end, int64_t column) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + RowOfSum(2 * half);
    if (row >= end) continue;
    T* values = static_cast<T*>(to.values) + row * to.step + column + ColumnOfSum(0);
#pragma unroll
    for (int group = 0; group < kHead / 8; ++group) {
      StorePair(values + 8 * group, sums[group][2 * half] * factor[half],
                sums[group][2 * half + 1] * factor[half]);
    }
  }
}

}  // namespace skerry::cuda
