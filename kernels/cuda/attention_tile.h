// Tiles of the attention kernels: rows of a head as bf16 in shared memory, and the fragments that
// tensor cores take of them.
//
// A row of e values is e / 8 chunks of 16 bytes; chunk c of row r lies at c xor (r mod 8), so that
// the eight rows of an ldmatrix fall on different banks.
#pragma once

#include <cmath>

#include "kernels/cuda/device.h"

namespace skerry::cuda {

inline constexpr unsigned kAttentionThreads = 128;
inline constexpr int kWarps = kAttentionThreads / kLanes;
inline constexpr int kParts = 2;                       // of 16 queries that a warp owns
inline constexpr int kQueries = kWarps * kParts * 16;  // that a block owns
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ int Warp() {
  return static_cast<int>(threadIdx.x / kLanes);
}

// Where a block's rows are: its sequence's first token and their number, columns of its heads.
// Short, as what a thread keeps for a whole pass is registers.
struct Place {
  int64_t first;
  int context;
  int head;
  int query, key;
};

__device__ __forceinline__ Place PlaceOf(const GpuAttention& a, int head) {
  const int head_size = static_cast<int>(a.head_size);
  const int of_kv_head = static_cast<int>(a.heads / a.kv_heads);
  return {static_cast<int64_t>(blockIdx.z) * a.context, static_cast<int>(a.context), head,
          head * head_size, head / of_kv_head * head_size};
}

inline LaunchShape ShapeFor(const GpuAttention& a, int rows, int64_t heads, size_t shared_bytes) {
  return {dim3{static_cast<unsigned>(CeilDivide(a.context, rows)), static_cast<unsigned>(heads),
               static_cast<unsigned>(a.sequences)},
          kAttentionThreads, shared_bytes};
}

// 1/√e, for powers of two.
inline float Scale(const GpuAttention& a) {
  return kLog2E / std::sqrt(static_cast<float>(a.head_size));
}

template <int kHead>
__device__ __forceinline__ uint16_t* ChunkAt(uint16_t* tile, int row, int chunk) {
  return tile + row * kHead + ((chunk ^ (row & 7)) << 3);
}

// Eight values to a chunk, zeros where they are not there: what is bf16 already is on its way when
// it returns.
__device__ __forceinline__ void BeginChunk(uint16_t* chunk, const float* from, bool there) {
  uint4 packed = {0, 0, 0, 0};
  if (there) {
    const auto* values = reinterpret_cast<const float4*>(from);
    const float4 low = values[0], high = values[1];
    packed = {PackBf16(low.x, low.y), PackBf16(low.z, low.w), PackBf16(high.x, high.y),
              PackBf16(high.z, high.w)};
  }
  *reinterpret_cast<uint4*>(chunk) = packed;
}
__device__ __forceinline__ void BeginChunk(uint16_t* chunk, const uint16_t* from, bool there) {
  CopyAsync16(chunk, from, there);
}

// Rows [first, first + kRows) of a tensor's columns from `column` on, of type T, as bf16; zeros for
// all but the first `rows` of them. All threads of the block take part; the tile is there when each
// has waited for its copies and met the others.
template <int kRows, int kHead, typename T>
__device__ __forceinline__ void BeginTile(uint16_t* tile, const GpuTensor& from, int64_t first,
                                          int rows, int column) {
  constexpr int kChunks = kHead / 8;
  const auto* values = static_cast<const T*>(from.values) + first * from.step + column;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks;
       i += static_cast<int>(kAttentionThreads)) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool there = row < rows;
    const T* at = there ? values + row * from.step + chunk * 8 : static_cast<const T*>(from.values);
    BeginChunk(ChunkAt<kHead>(tile, row, chunk), at, there);
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

// sums[i] [16, 8·kGroups] += rows `row_a` + 16·i of tile a · (rows 0 … 8·kGroups of tile b)ᵀ. What
// is taken of b serves all of a warp's kParts.
template <int kParts, int kGroups, int kHead>
__device__ __forceinline__ void MultiplyTransposed(float (&sums)[kParts][kGroups][4], uint16_t* a,
                                                   int row_a, uint16_t* b) {
  // Unrolled whole, the addresses of all steps would not fit the registers of a backward pass.
#pragma unroll 2
  for (int step = 0; step < kHead / 16; ++step) {
    uint32_t left[kParts][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      TakeRows<kHead>(left[part], a, row_a + 16 * part, step);
#pragma unroll
    for (int pair = 0; pair < kGroups / 2; ++pair) {
      uint32_t right[4];
      TakeColumns<kHead>(right, b, 16 * pair, step);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        MultiplyAccumulate(sums[part][2 * pair], left[part], right[0], right[1]);
        MultiplyAccumulate(sums[part][2 * pair + 1], left[part], right[2], right[3]);
      }
    }
  }
}

// out[i] [16, e] += left[i] [16, 8·kGroups], rounded to bf16, · rows 0 … 8·kGroups of `tile`.
template <int kParts, int kGroups, int kHead>
__device__ __forceinline__ void MultiplyByTile(float (&out)[kParts][kHead / 8][4],
                                               const float (&left)[kParts][kGroups][4],
                                               uint16_t* tile) {
#pragma unroll
  for (int step = 0; step < kGroups / 2; ++step) {
    uint32_t a[kParts][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &left[part][2 * step + i / 2][i % 2 * 2];
        a[part][i] = PackBf16(pair[0], pair[1]);
      }
    }
#pragma unroll
    for (int pair = 0; pair < kHead / 16; ++pair) {
      uint32_t right[4];
      TakeDepth<kHead>(right, tile, 16 * step, pair);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        MultiplyAccumulate(out[part][2 * pair], a[part], right[0], right[1]);
        MultiplyAccumulate(out[part][2 * pair + 1], a[part], right[2], right[3]);
      }
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

// A warp's sums [16, e] times `factor` to rows from `first` on, of which there are so many.
template <int kHead, typename T>
__device__ __forceinline__ void StoreRows(const float (&sums)[kHead / 8][4],
                                          const float (&factor)[2], const GpuTensor& to,
                                          int64_t first, int rows, int column) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = RowOfSum(2 * half);
    if (row >= rows) continue;
    T* values = static_cast<T*>(to.values) + (first + row) * to.step + column + ColumnOfSum(0);
#pragma unroll
    for (int group = 0; group < kHead / 8; ++group) {
      StorePair(values + 8 * group, sums[group][2 * half] * factor[half],
                sums[group][2 * half + 1] * factor[half]);
    }
  }
}

}  // namespace skerry::cuda
