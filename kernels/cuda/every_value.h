// What is done to every value of a matrix: eight neighbours at a time where memory gives them at
// once, as a thread that asks for two or four bytes leaves most of a large device's memory idle,
// and row by row, as dividing an index by the columns costs more than the values.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/device.h"

namespace skerry::cuda {

// Values of a pack: kWide where some are bf16; kHalf where all are float32, of which two stores of
// a pack of eight would each leave half of every 32 bytes to the other.
inline constexpr unsigned kWide = 8, kHalf = 4;

template <unsigned kWidth>
struct Pack {
  float of[kWidth];
};

// What memory gives at once.
template <unsigned kWidth>
struct alignas(2 * kWidth) Pairs {
  uint32_t of[kWidth / 2];  // of bf16
};
struct alignas(16) Quad {
  float of[4];
};

// Values i … i + kWidth − 1 of a row, of more than one on a border of 16 bytes (four of bf16: 8).
template <unsigned kWidth>
__device__ __forceinline__ Pack<kWidth> Take(const Row& row, int64_t i) {
  Pack<kWidth> pack;
  if constexpr (kWidth == 1) {
    pack.of[0] = row[i];
  } else if (row.bf16) {
    const auto pairs =
        *reinterpret_cast<const Pairs<kWidth>*>(static_cast<const uint16_t*>(row.at) + i);
#pragma unroll
    for (unsigned j = 0; j < kWidth / 2; ++j) {
      pack.of[2 * j] = std::bit_cast<float>(pairs.of[j] << 16);
      pack.of[2 * j + 1] = std::bit_cast<float>(pairs.of[j] & 0xffff0000u);
    }
  } else {
    const auto* from = reinterpret_cast<const Quad*>(static_cast<const float*>(row.at) + i);
#pragma unroll
    for (unsigned q = 0; q < kWidth / 4; ++q) {
      const Quad values = from[q];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) pack.of[4 * q + j] = values.of[j];
    }
  }
  return pack;
}

template <unsigned kWidth>
__device__ __forceinline__ void Put(const Row& row, int64_t i, const Pack<kWidth>& pack) {
  if constexpr (kWidth == 1) {
    row.Set(i, pack.of[0]);
  } else if (row.bf16) {
    Pairs<kWidth> pairs;
#pragma unroll
    for (unsigned j = 0; j < kWidth / 2; ++j)
      pairs.of[j] = PackBf16(pack.of[2 * j], pack.of[2 * j + 1]);
    *reinterpret_cast<Pairs<kWidth>*>(static_cast<uint16_t*>(row.at) + i) = pairs;
  } else {
    auto* to = reinterpret_cast<Quad*>(static_cast<float*>(row.at) + i);
#pragma unroll
    for (unsigned q = 0; q < kWidth / 4; ++q) {
      to[q] = {pack.of[4 * q], pack.of[4 * q + 1], pack.of[4 * q + 2], pack.of[4 * q + 3]};
    }
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

// kWidth values at once; where that is not 1 what the operation takes of its rows is
// Aligned, and `columns` are whole packs.
template <unsigned kWidth, typename Operation>
void ForEveryValueOf(GpuDevice& device, const Operation& operation, int64_t rows, int64_t columns) {
  constexpr unsigned kThreads = 128;
  constexpr int64_t kRowsAtOnce = 65535;  // the most of a grid
  if (rows <= 0 || columns <= 0) return;
  const int64_t across = CeilDivide(columns, kThreads * kWidth);
  const LaunchShape shape = {dim3{static_cast<unsigned>(across),
                                  static_cast<unsigned>(rows < kRowsAtOnce ? rows : kRowsAtOnce)},
                             kThreads, 0};
  Launch(device, shape, EveryValueKernel<kWidth, Operation>, operation, rows, columns);
}

template <unsigned kPack = kWide, typename Operation>
void ForEveryValue(GpuDevice& device, const Operation& operation, int64_t rows, int64_t columns,
                   bool in_packs) {
  if (in_packs) return ForEveryValueOf<kPack>(device, operation, rows, columns);
  ForEveryValueOf<1>(device, operation, rows, columns);
}

// Whether packs of so many of so many columns lie in all of these as they must.
template <unsigned kPack = kWide>
bool InPacks(int64_t columns, std::initializer_list<GpuTensor> rows) {
  bool fine = columns % kPack == 0;
  for (const GpuTensor& x : rows) fine = fine && Aligned(x);
  return fine;
}

// So many values one after another, as one row.
inline GpuTensor Line(const float* values, int64_t n) {
  return {const_cast<float*>(values), 1, n, n, 0};
}

}  // namespace skerry::cuda
