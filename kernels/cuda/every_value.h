// What is done to every value of a matrix: eight neighbours at a time where memory gives them at
// once, as a thread that asks for two or four bytes leaves most of a large device's memory idle,
// and row by row, as dividing an index by the columns costs more than the values.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cuda/device.h"

namespace skerry::cuda {

inline constexpr unsigned kWide = 8;

template <unsigned kWidth>
struct Pack {
  float of[kWidth];
};

// Values i … i + kWidth − 1 of a row; of kWide on a border of 16 bytes.
template <unsigned kWidth>
__device__ __forceinline__ Pack<kWidth> Take(const Row& row, int64_t i) {
  Pack<kWidth> pack;
  if constexpr (kWidth == 1) {
    pack.of[0] = row[i];
  } else if (row.bf16) {
    const uint4 words = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(row.at) + i);
    const uint32_t pairs[kWidth / 2] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (unsigned j = 0; j < kWidth / 2; ++j) {
      pack.of[2 * j] = std::bit_cast<float>(pairs[j] << 16);
      pack.of[2 * j + 1] = std::bit_cast<float>(pairs[j] & 0xffff0000u);
    }
  } else {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(row.at) + i);
#pragma unroll
    for (unsigned j = 0; j < kWidth / 4; ++j) {
      const float4 values = from[j];
      pack.of[4 * j] = values.x;
      pack.of[4 * j + 1] = values.y;
      pack.of[4 * j + 2] = values.z;
      pack.of[4 * j + 3] = values.w;
    }
  }
  return pack;
}

template <unsigned kWidth>
__device__ __forceinline__ void Put(const Row& row, int64_t i, const Pack<kWidth>& pack) {
  const float* of = pack.of;
  if constexpr (kWidth == 1) {
    row.Set(i, of[0]);
  } else if (row.bf16) {
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(row.at) + i) = {
        PackBf16(of[0], of[1]), PackBf16(of[2], of[3]), PackBf16(of[4], of[5]),
        PackBf16(of[6], of[7])};
  } else {
    auto* to = reinterpret_cast<float4*>(static_cast<float*>(row.at) + i);
    to[0] = {of[0], of[1], of[2], of[3]};
    to[1] = {of[4], of[5], of[6], of[7]};
  }
}

// Calls operation.At<kWidth>(row, column) for every kWidth columns of every row.
template <unsigned kWidth, typename Operation>
__global__ void EveryValueKernel(Operation operation, int64_t rows, int64_t columns) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kWidth;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    for (int64_t column = first; column < columns; column += step)
      operation.template At<kWidth>(row, column);
  }
}

// `wide`: what the operation takes of its rows is Aligned, and `columns` are whole packs.
template <typename Operation>
void ForEveryValue(GpuDevice& device, const Operation& operation, int64_t rows, int64_t columns,
                   bool wide) {
  constexpr unsigned kThreads = 128;
  constexpr int64_t kRowsAtOnce = 65535;  // the most of a grid
  if (rows <= 0 || columns <= 0) return;
  const int64_t across = CeilDivide(columns, kThreads * (wide ? kWide : 1));
  const LaunchShape shape = {dim3{static_cast<unsigned>(across),
                                  static_cast<unsigned>(rows < kRowsAtOnce ? rows : kRowsAtOnce)},
                             kThreads, 0};
  Launch(device.stream, shape,
         wide ? EveryValueKernel<kWide, Operation> : EveryValueKernel<1, Operation>, operation,
         rows, columns);
}

}  // namespace skerry::cuda
