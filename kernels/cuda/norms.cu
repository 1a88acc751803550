// RMSNorm, and sums over rows. Where rows are whole packs a block has its row in registers between
// its two passes, and backward it has many rows one after the other, so that it gathers the
// weight's gradient meanwhile: every value is read once.
#include <cmath>

#include "kernels/cuda/every_value.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kPacksMax = 8;  // of a thread; wider rows are read again

struct Shape {
  int packs = 0;  // of a thread: 1, 2, 4 or 8; 0: rows are not taken in packs
  unsigned threads = kThreads;
};

Shape ShapeOfRows(int64_t width, std::initializer_list<GpuTensor> rows) {
  if (!InPacks<kHalf>(width, rows) || width > int64_t{kThreads} * kHalf * kPacksMax) return {};
  Shape shape = {1, kThreads};
  while (width > int64_t{kThreads} * kHalf * shape.packs) shape.packs *= 2;
  const int64_t threads = CeilDivide(width, kHalf * shape.packs);
  shape.threads = static_cast<unsigned>(CeilDivide(threads, kLanes)) * kLanes;
  return shape;
}

__device__ __forceinline__ int64_t ColumnOf(int pack) {
  return (static_cast<int64_t>(pack) * blockDim.x + threadIdx.x) * kHalf;
}

template <int kPacks>
struct OwnColumns {
  Pack<kHalf> of[kPacks];  // zeros past the row's end

  __device__ __forceinline__ void TakeFrom(const Row& row, int64_t width) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      of[p] = {};
      if (ColumnOf(p) < width) of[p] = Take<kHalf>(row, ColumnOf(p));
    }
  }
};

__device__ __forceinline__ Row FloatRow(const float* values) {
  return {const_cast<float*>(values), false};
}

// Calls visit(pack, column) for what of a thread's packs is in the row.
template <int kPacks, typename Visit>
__device__ __forceinline__ void ForOwn(int64_t width, Visit&& visit) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (ColumnOf(p) < width) visit(p, ColumnOf(p));
  }
}

template <int kPacks>
__global__ void __launch_bounds__(kThreads) ForwardKernel(GpuRmsNorm a) {
  auto& sums = Shared<BlockSums<float>>();
  const int64_t first = blockIdx.x * a.width;
  OwnColumns<kPacks> x;
  x.TakeFrom(FloatRow(a.x + first), a.width);
  if (a.addend != nullptr) {
    OwnColumns<kPacks> more;
    more.TakeFrom(FloatRow(a.addend + first), a.width);
    ForOwn<kPacks>(a.width, [&](int p, int64_t column) {
      for (unsigned j = 0; j < kHalf; ++j) x.of[p].of[j] += more.of[p].of[j];
      Put(FloatRow(a.sum + first), column, x.of[p]);
    });
  }
  float square = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    for (const float value : x.of[p].of) square += value * value;
  }
  square = BlockSum(square, sums);
  const float inverse = 1 / sqrtf(square / static_cast<float>(a.width) + a.epsilon);
  if (threadIdx.x == 0) a.inverse_rms[blockIdx.x] = inverse;
  const Row out = RowAt(a.out, blockIdx.x);
  ForOwn<kPacks>(a.width, [&](int p, int64_t column) {
    Pack<kHalf> scaled = Take<kHalf>(FloatRow(a.weight), column);
    for (unsigned j = 0; j < kHalf; ++j) scaled.of[j] *= x.of[p].of[j] * inverse;
    Put(out, column, scaled);
  });
}

__global__ void AnyForwardKernel(GpuRmsNorm a) {
  auto& sums = Shared<BlockSums<float>>();
  const int64_t first = blockIdx.x * a.width;
  const float* x = a.x + first;
  float square = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    float value = x[i];
    if (a.addend != nullptr) a.sum[first + i] = value += a.addend[first + i];
    square += value * value;
  }
  square = BlockSum(square, sums);
  const float inverse = 1 / sqrtf(square / static_cast<float>(a.width) + a.epsilon);
  if (threadIdx.x == 0) a.inverse_rms[blockIdx.x] = inverse;
  // A thread reads back what it wrote itself.
  const float* normed = a.addend != nullptr ? a.sum + first : x;
  const Row out = RowAt(a.out, blockIdx.x);
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    out.Set(i, a.weight[i] * (normed[i] * inverse));
  }
}

// With y = x·r·w and r = (mean x² + ε)^(−1/2): ∂x += r·w·∂y − x·r³/d·Σ(w·∂y·x). A block has every
// gridDim.x-th row; partial [blocks, width]: Σ over them of ∂y·x·r.
template <int kPacks>
__global__ void __launch_bounds__(kThreads) BackwardKernel(GpuRmsNormGradient a, float* partial) {
  auto& sums = Shared<BlockSums<float>>();
  OwnColumns<kPacks> of_weight = {};
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    OwnColumns<kPacks> x, d_out, d_x;
    x.TakeFrom(FloatRow(a.x + row * a.width), a.width);
    d_out.TakeFrom(RowAt(a.d_out, row), a.width);
    d_x.TakeFrom(FloatRow(a.d_x + row * a.width), a.width);
    float dot = 0;
    ForOwn<kPacks>(a.width, [&](int p, int64_t column) {
      const Pack<kHalf> weight = Take<kHalf>(FloatRow(a.weight), column);
      for (unsigned j = 0; j < kHalf; ++j) dot += weight.of[j] * d_out.of[p].of[j] * x.of[p].of[j];
    });
    dot = BlockSum(dot, sums);
    const float inverse = a.inverse_rms[row];
    const float shrink = inverse * inverse * inverse * dot / static_cast<float>(a.width);
    ForOwn<kPacks>(a.width, [&](int p, int64_t column) {
      const Pack<kHalf> weight = Take<kHalf>(FloatRow(a.weight), column);
      Pack<kHalf>& d = d_x.of[p];
      for (unsigned j = 0; j < kHalf; ++j) {
        const float y = d_out.of[p].of[j], value = x.of[p].of[j];
        d.of[j] += inverse * weight.of[j] * y - value * shrink;
        of_weight.of[p].of[j] += y * value * inverse;
      }
      Put(FloatRow(a.d_x + row * a.width), column, d);
      if (a.rounded.values != nullptr) Put(RowAt(a.rounded, row), column, d);
    });
  }
  ForOwn<kPacks>(a.width, [&](int p, int64_t column) {
    Put(FloatRow(partial + blockIdx.x * a.width), column, of_weight.of[p]);
  });
}

__global__ void AnyBackwardKernel(GpuRmsNormGradient a) {
  auto& sums = Shared<BlockSums<float>>();
  const int64_t first = blockIdx.x * a.width;
  const float* x = a.x + first;
  const Row d_out = RowAt(a.d_out, blockIdx.x);
  float dot = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) dot += a.weight[i] * d_out[i] * x[i];
  dot = BlockSum(dot, sums);
  const float inverse = a.inverse_rms[blockIdx.x];
  const float shrink = inverse * inverse * inverse * dot / static_cast<float>(a.width);
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    const float d = a.d_x[first + i] + inverse * a.weight[i] * d_out[i] - x[i] * shrink;
    a.d_x[first + i] = d;
    if (a.rounded.values != nullptr) RowAt(a.rounded, blockIdx.x).Set(i, d);
  }
}

// Rows of a sum are cut into chunks, of each of which a thread adds up a column.
struct Chunks {
  int64_t rows = 0, count = 0;

  explicit Chunks(int64_t all_rows) {
    constexpr int64_t kRowsMin = 32, kCountMax = 256;
    rows = CeilDivide(all_rows, kCountMax);
    if (rows < kRowsMin) rows = kRowsMin;
    count = CeilDivide(all_rows, rows);
  }
};

// partial [chunks, width] = Σ over a chunk's rows of term(row, column).
template <typename Term>
__device__ __forceinline__ void SumChunk(int64_t rows, int64_t width, int64_t chunk_rows,
                                         float* partial, const Term& term) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= width) return;
  const int64_t first = blockIdx.y * chunk_rows;
  const int64_t end = first + chunk_rows < rows ? first + chunk_rows : rows;
  float sum = 0;
#pragma unroll 8
  for (int64_t row = first; row < end; ++row) sum += term(row, column);
  partial[blockIdx.y * width + column] = sum;
}

__global__ void WeightChunkKernel(GpuRmsNormGradient a, int64_t chunk_rows, float* partial) {
  SumChunk(a.rows, a.width, chunk_rows, partial, [&](int64_t row, int64_t column) {
    return RowAt(a.d_out, row)[column] * a.x[row * a.width + column] * a.inverse_rms[row];
  });
}

__global__ void RowChunkKernel(GpuTensor x, int64_t chunk_rows, float* partial) {
  SumChunk(x.rows, x.columns, chunk_rows, partial,
           [&](int64_t row, int64_t column) { return RowAt(x, row)[column]; });
}

constexpr unsigned kSharers = kThreads / kLanes;  // threads that add up one column
struct SharedSums {
  float of[kSharers][kLanes];
};

// sums [width] (+)= Σ over partial's rows.
__global__ void ColumnSumKernel(const float* partial, int64_t rows, int64_t width, bool adds,
                                float* sums) {
  auto& shared = Shared<SharedSums>();
  const unsigned lane = threadIdx.x % kLanes, own = threadIdx.x / kLanes;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kLanes + lane;
  float sum = 0;
#pragma unroll 8
  for (int64_t row = own; row < rows; row += kSharers) {
    if (column < width) sum += partial[row * width + column];
  }
  shared.of[own][lane] = sum;
  __syncthreads();
  if (own > 0 || column >= width) return;
  for (unsigned other = 1; other < kSharers; ++other) sum += shared.of[other][lane];
  sums[column] = adds ? sums[column] + sum : sum;
}

void SumColumns(GpuDevice& device, const float* partial, int64_t rows, int64_t width, bool adds,
                float* sums) {
  Launch(device,
         {dim3{static_cast<unsigned>(CeilDivide(width, kLanes))}, kThreads, sizeof(SharedSums)},
         ColumnSumKernel, partial, rows, width, adds, sums);
}

LaunchShape ChunkShape(int64_t width, const Chunks& chunks) {
  return {
      dim3{static_cast<unsigned>(CeilDivide(width, kThreads)), static_cast<unsigned>(chunks.count)},
      kThreads, 0};
}

using Forward = void (*)(GpuRmsNorm);
Forward ForwardOf(const Shape& shape) {
  if (shape.packs == 1) return ForwardKernel<1>;
  if (shape.packs == 2) return ForwardKernel<2>;
  if (shape.packs == 4) return ForwardKernel<4>;
  return shape.packs == 8 ? ForwardKernel<8> : AnyForwardKernel;
}

using Backward = void (*)(GpuRmsNormGradient, float*);
Backward BackwardOf(const Shape& shape) {
  if (shape.packs == 1) return BackwardKernel<1>;
  if (shape.packs == 2) return BackwardKernel<2>;
  return shape.packs == 4 ? BackwardKernel<4> : BackwardKernel<8>;
}

LaunchShape Blocks(int64_t blocks, unsigned threads) {
  return {dim3{static_cast<unsigned>(blocks)}, threads, sizeof(BlockSums<float>)};
}

// As many as are there at a time, so that all end together: registers are what bounds them.
int64_t BackwardBlocks(const GpuDevice& device, int64_t rows, const Shape& shape) {
  const int64_t threads = shape.packs == 1 ? 1536 : 2048 / shape.packs;
  const int64_t of_processor = threads / shape.threads;
  const int64_t blocks = device.processors * (of_processor > 1 ? of_processor : 1);
  return blocks < rows ? blocks : rows;
}

}  // namespace

void RmsNormForward(GpuDevice* device, const GpuRmsNorm* args) {
  const int64_t width = args->width;
  if (args->rows == 0) return;
  const Shape shape =
      ShapeOfRows(width, {Line(args->x, width), Line(args->addend, width), Line(args->sum, width),
                          Line(args->weight, width), args->out});
  Launch(*device, Blocks(args->rows, shape.threads), ForwardOf(shape), *args);
}

void RmsNormBackward(GpuDevice* device, const GpuRmsNormGradient* args) {
  const int64_t width = args->width, rows = args->rows;
  if (rows == 0) return;
  const Shape shape = ShapeOfRows(width, {Line(args->x, width), Line(args->weight, width),
                                          Line(args->d_x, width), args->d_out, args->rounded});
  const Chunks chunks(rows);
  const int64_t sums = shape.packs > 0 ? BackwardBlocks(*device, rows, shape) : chunks.count;
  float* partial = Scratch<float>(*device, sums * width);
  if (partial == nullptr) return;
  if (shape.packs > 0) {
    Launch(*device, Blocks(sums, shape.threads), BackwardOf(shape), *args, partial);
  } else {
    Launch(*device, Blocks(rows, kThreads), AnyBackwardKernel, *args);
    Launch(*device, ChunkShape(width, chunks), WeightChunkKernel, *args, chunks.rows, partial);
  }
  SumColumns(*device, partial, sums, width, true, args->d_weight);
}

void SumRows(GpuDevice* device, const GpuTensor* x, float* sums) {
  if (x->columns == 0) return;
  const Chunks chunks(x->rows);
  float* partial = Scratch<float>(*device, chunks.count * x->columns + 1);
  if (partial == nullptr) return;
  if (x->rows > 0) {
    Launch(*device, ChunkShape(x->columns, chunks), RowChunkKernel, *x, chunks.rows, partial);
  }
  SumColumns(*device, partial, chunks.count, x->columns, false, sums);
}

}  // namespace skerry::cuda
