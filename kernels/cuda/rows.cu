// A block to a row: RMSNorm, cross-entropy; and the embedding, a block to a token.
#include <cmath>

#include "kernels/cuda/device.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 256;

LaunchShape BlockPerRow(int64_t rows) {
  return {dim3{static_cast<unsigned>(rows)}, kThreads, sizeof(BlockSums<float>)};
}

__global__ void RmsNormForwardKernel(GpuRmsNorm a) {
  auto& sums = Shared<BlockSums<float>>();
  const float* x = a.x + blockIdx.x * a.width;
  float square = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) square += x[i] * x[i];
  square = BlockSum(square, sums);
  const float inverse = 1 / sqrtf(square / static_cast<float>(a.width) + a.epsilon);
  if (threadIdx.x == 0) a.inverse_rms[blockIdx.x] = inverse;
  float* out = a.out + blockIdx.x * a.width;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) out[i] = x[i] * inverse * a.weight[i];
}

// With y = x·r·w and r = (mean x² + ε)^(−1/2): ∂x += r·w·∂y − x·r³/d·Σ(w·∂y·x).
__global__ void RmsNormBackwardKernel(GpuRmsNorm a) {
  auto& sums = Shared<BlockSums<float>>();
  const int64_t row = blockIdx.x * a.width;
  const float *x = a.x + row, *d_out = a.d_out + row;
  float dot = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) dot += a.weight[i] * d_out[i] * x[i];
  dot = BlockSum(dot, sums);
  const float inverse = a.inverse_rms[blockIdx.x];
  const float shrink = inverse * inverse * inverse * dot / static_cast<float>(a.width);
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    a.out[row + i] += inverse * a.weight[i] * d_out[i] - x[i] * shrink;
  }
}

// partial [chunks, width]: Σ over a chunk of rows of ∂y·x·r, a thread to a column.
__global__ void WeightPartialKernel(GpuRmsNorm a, int64_t rows_a_chunk, float* partial) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= a.width) return;
  const int64_t first = blockIdx.y * rows_a_chunk;
  const int64_t end = first + rows_a_chunk < a.rows ? first + rows_a_chunk : a.rows;
  float sum = 0;
  for (int64_t t = first; t < end; ++t) {
    sum += a.d_out[t * a.width + column] * a.x[t * a.width + column] * a.inverse_rms[t];
  }
  partial[blockIdx.y * a.width + column] = sum;
}

__global__ void WeightSumKernel(const float* partial, int64_t chunks, int64_t width,
                                float* d_weight) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= width) return;
  float sum = 0;
  for (int64_t c = 0; c < chunks; ++c) sum += partial[c * width + column];
  d_weight[column] += sum;
}

struct LossShared {
  BlockSums<float> sums;
  float tops[kLanes];
};

__device__ float BlockMax(float value, float* of_warp) {
  value = WarpMax(value);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = value;
  __syncthreads();
  float top = of_warp[0];
  for (unsigned w = 1; w < blockDim.x / kLanes; ++w) top = fmaxf(top, of_warp[w]);
  return top;
}

// losses [rows]; logits become the gradient of their mean when asked.
__global__ void CrossEntropyKernel(float* logits, int64_t vocabulary, const int32_t* targets,
                                   bool gradient, float share, float* losses) {
  auto& shared = Shared<LossShared>();
  float* row = logits + blockIdx.x * vocabulary;
  float top = -INFINITY;
  for (int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) top = fmaxf(top, row[i]);
  top = BlockMax(top, shared.tops);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) sum += expf(row[i] - top);
  sum = BlockSum(sum, shared.sums);
  const int64_t target = targets[blockIdx.x];
  if (threadIdx.x == 0) losses[blockIdx.x] = top - row[target] + logf(sum);
  if (!gradient) return;
  __syncthreads();  // the target's logit has been read
  const float scale = share / sum;
  for (int64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
    row[i] = expf(row[i] - top) * scale - (i == target ? share : 0);
  }
}

// A block adds losses up in float64, in the same order every time.
__global__ void LossSumKernel(const float* losses, int64_t rows, double* sum) {
  auto& sums = Shared<BlockSums<double>>();
  double own = 0;
  for (int64_t t = threadIdx.x; t < rows; t += blockDim.x) own += losses[t];
  own = BlockSum(own, sums);
  if (threadIdx.x == 0) *sum = own;
}

__global__ void GatherKernel(const int32_t* tokens, int64_t width, const float* table, float* out) {
  const float* from = table + tokens[blockIdx.x] * width;
  float* to = out + blockIdx.x * width;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}

// A block to a token that occurs: its rows are added in the order they have in the text.
__global__ void ScatterKernel(const int32_t* tokens, const int32_t* starts, const int32_t* places,
                              int64_t width, const float* d_out, float* d_table) {
  float* to = d_table + tokens[blockIdx.x] * width;
  const int32_t first = starts[blockIdx.x], end = starts[blockIdx.x + 1];
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = to[i];
    for (int32_t p = first; p < end; ++p) sum += d_out[places[p] * width + i];
    to[i] = sum;
  }
}

}  // namespace

void RmsNormForward(GpuDevice* device, const GpuRmsNorm* args) {
  if (args->rows > 0) Launch(device->stream, BlockPerRow(args->rows), RmsNormForwardKernel, *args);
}

void RmsNormBackward(GpuDevice* device, const GpuRmsNorm* args) {
  constexpr int64_t kRowsAChunk = 32;
  if (args->rows == 0) return;
  const int64_t chunks = CeilDivide(args->rows, kRowsAChunk);
  float* partial = Scratch<float>(*device, chunks * args->width);
  if (partial == nullptr) return;
  Launch(device->stream, BlockPerRow(args->rows), RmsNormBackwardKernel, *args);
  const auto columns = static_cast<unsigned>(CeilDivide(args->width, kThreads));
  Launch(device->stream, {dim3{columns, static_cast<unsigned>(chunks)}, kThreads, 0},
         WeightPartialKernel, *args, kRowsAChunk, partial);
  Launch(device->stream, {dim3{columns}, kThreads, 0}, WeightSumKernel, partial, chunks,
         args->width, args->d_weight);
}

double CrossEntropy(GpuDevice* device, const GpuCrossEntropy* args) {
  // The sum, the rows' losses, the targets: four bytes each but the first.
  auto* scratch = Scratch<double>(*device, 1 + args->rows);
  if (scratch == nullptr) return NAN;
  auto* losses = reinterpret_cast<float*>(scratch + 1);
  auto* targets = reinterpret_cast<int32_t*>(losses + args->rows);
  CopyIn(device->stream, args->host_targets, targets,
         static_cast<size_t>(args->rows) * sizeof(int32_t));
  const float share = 1 / static_cast<float>(args->rows);
  Launch(device->stream, {dim3{static_cast<unsigned>(args->rows)}, kThreads, sizeof(LossShared)},
         CrossEntropyKernel, args->logits, args->vocabulary, targets, args->gradient, share,
         losses);
  Launch(device->stream, {dim3{1}, kThreads, sizeof(BlockSums<double>)}, LossSumKernel, losses,
         args->rows, scratch);
  double sum = 0;
  CopyOut(device->stream, scratch, &sum, sizeof(sum));
  return sum / static_cast<double>(args->rows);
}

void EmbeddingForward(GpuDevice* device, const int32_t* host_tokens, int64_t rows, int64_t width,
                      const float* table, float* out) {
  auto* tokens = Scratch<int32_t>(*device, rows);
  if (rows == 0 || tokens == nullptr) return;
  CopyIn(device->stream, host_tokens, tokens, static_cast<size_t>(rows) * sizeof(int32_t));
  Launch(device->stream, {dim3{static_cast<unsigned>(rows)}, kThreads, 0}, GatherKernel, tokens,
         width, table, out);
}

void EmbeddingBackward(GpuDevice* device, const GpuScatter* args) {
  const int64_t numbers = 2 * args->distinct + 1 + args->rows;
  auto* tokens = Scratch<int32_t>(*device, numbers);
  if (args->distinct == 0 || tokens == nullptr) return;
  int32_t* starts = tokens + args->distinct;
  int32_t* places = starts + args->distinct + 1;
  const auto bytes = [](int64_t count) { return static_cast<size_t>(count) * sizeof(int32_t); };
  CopyIn(device->stream, args->host_tokens, tokens, bytes(args->distinct));
  CopyIn(device->stream, args->host_starts, starts, bytes(args->distinct + 1));
  CopyIn(device->stream, args->host_places, places, bytes(args->rows));
  Launch(device->stream, {dim3{static_cast<unsigned>(args->distinct)}, kThreads, 0}, ScatterKernel,
         tokens, starts, places, args->width, args->d_out, args->d_table);
}

}  // namespace skerry::cuda
