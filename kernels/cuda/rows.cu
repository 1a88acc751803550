// A block to a row of logits: cross-entropy; and the embedding, a block to a token.
#include <cfloat>
#include <cmath>

#include "kernels/cuda/device.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 256;

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

// A row's logits: Σ e^logit = sum · e^top.
struct LogitSum {
  float top, sum;
};

__device__ LogitSum SumOfRow(const GpuCrossEntropy& a, const float* row, LossShared& shared) {
  // In one pass over the row, which no cache holds; −∞ adds nothing to a top that is finite.
  float own_top = -FLT_MAX, sum = 0;
  for (int64_t i = threadIdx.x; i < a.vocabulary; i += blockDim.x) {
    const float logit = row[i], less = expf(-fabsf(logit - own_top));
    const bool is_top = logit > own_top;
    sum = is_top ? sum * less + 1 : sum + less;
    own_top = is_top ? logit : own_top;
  }
  const float top = BlockMax(own_top, shared.tops);
  return {top, BlockSum(sum * expf(own_top - top), shared.sums)};
}

// With z = log Σ e^logit a token loses z − logit(target) + z_loss·z², so the gradient is
// p·(1 + 2·z_loss·z) − [target].
__device__ void ScoreRow(const GpuCrossEntropy& a, LogitSum all, float aim, int64_t target) {
  const float log_sum = logf(all.sum), z = all.top + log_sum;
  if (threadIdx.x == 0) a.losses[blockIdx.x] = all.top - aim + log_sum + a.z_loss * z * z;
  if (a.d_logits.values == nullptr) return;
  const float* row = a.logits + blockIdx.x * a.vocabulary;
  const float scale = a.gradient_scale * (1 + 2 * a.z_loss * z) / all.sum;
  const Row out = RowAt(a.d_logits, blockIdx.x);
  for (int64_t i = threadIdx.x; i < a.vocabulary; i += blockDim.x) {
    out.Set(i, expf(row[i] - all.top) * scale - (i == target ? a.gradient_scale : 0));
  }
}

__global__ void CrossEntropyKernel(GpuCrossEntropy a, const int32_t* targets) {
  auto& shared = Shared<LossShared>();
  const float* row = a.logits + blockIdx.x * a.vocabulary;
  const LogitSum all = SumOfRow(a, row, shared);
  const int64_t target = targets[blockIdx.x];
  const float aim = row[target];
  __syncthreads();  // it has been read
  ScoreRow(a, all, aim, target);
}

__global__ void CrossEntropyOfPartsKernel(GpuCrossEntropy a, const int32_t* targets) {
  const float* statistics = a.statistics + blockIdx.x;
  LogitSum all = {statistics[0], 0};
  for (int64_t p = 1; p < a.parts; ++p) all.top = fmaxf(all.top, statistics[3 * p * a.rows]);
  float aim = 0;
  for (int64_t p = 0; p < a.parts; ++p) {
    const float* part = statistics + 3 * p * a.rows;
    all.sum += part[a.rows] * expf(part[0] - all.top);
    aim += part[2 * a.rows];
  }
  ScoreRow(a, all, aim, targets[blockIdx.x]);
}

__global__ void LogitStatisticsKernel(GpuCrossEntropy a, const int32_t* targets) {
  auto& shared = Shared<LossShared>();
  const float* row = a.logits + blockIdx.x * a.vocabulary;
  const LogitSum all = SumOfRow(a, row, shared);
  if (threadIdx.x > 0) return;
  const int64_t target = targets[blockIdx.x];
  float* statistics = a.statistics + blockIdx.x;
  statistics[0] = all.top;
  statistics[a.rows] = all.sum;
  statistics[2 * a.rows] = target < 0 ? 0 : row[target];
}

__global__ void GatherKernel(const int32_t* tokens, int64_t width, const float* table, float* out) {
  const int64_t token = tokens[blockIdx.x];
  const float* from = table + token * width;
  float* to = out + blockIdx.x * width;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) to[i] = token < 0 ? 0 : from[i];
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

using LossKernel = void (*)(GpuCrossEntropy, const int32_t* targets);

void LaunchWithTargets(GpuDevice* device, const GpuCrossEntropy& args, LossKernel kernel) {
  auto* targets = args.rows == 0 ? nullptr : Scratch<int32_t>(*device, args.rows);
  if (targets == nullptr) return;
  CopyIn(*device, args.host_targets, targets, static_cast<size_t>(args.rows) * sizeof(int32_t));
  Launch(*device, {dim3{static_cast<unsigned>(args.rows)}, kThreads, sizeof(LossShared)},
         kernel, args, targets);
}

}  // namespace

void CrossEntropy(GpuDevice* device, const GpuCrossEntropy* args) {
  const auto kernel = args->parts > 0 ? CrossEntropyOfPartsKernel : CrossEntropyKernel;
  LaunchWithTargets(device, *args, kernel);
}

void LogitStatistics(GpuDevice* device, const GpuCrossEntropy* args) {
  LaunchWithTargets(device, *args, LogitStatisticsKernel);
}

void EmbeddingForward(GpuDevice* device, const int32_t* host_tokens, int64_t rows, int64_t width,
                      const float* table, float* out) {
  auto* tokens = rows == 0 ? nullptr : Scratch<int32_t>(*device, rows);
  if (tokens == nullptr) return;
  CopyIn(*device, host_tokens, tokens, static_cast<size_t>(rows) * sizeof(int32_t));
  Launch(*device, {dim3{static_cast<unsigned>(rows)}, kThreads, 0}, GatherKernel, tokens,
         width, table, out);
}

void EmbeddingBackward(GpuDevice* device, const GpuScatter* args) {
  const int64_t numbers = 2 * args->distinct + 1 + args->rows;
  auto* tokens = args->distinct == 0 ? nullptr : Scratch<int32_t>(*device, numbers);
  if (tokens == nullptr) return;
  int32_t* starts = tokens + args->distinct;
  int32_t* places = starts + args->distinct + 1;
  const auto bytes = [](int64_t count) { return static_cast<size_t>(count) * sizeof(int32_t); };
  CopyIn(*device, args->host_tokens, tokens, bytes(args->distinct));
  CopyIn(*device, args->host_starts, starts, bytes(args->distinct + 1));
  CopyIn(*device, args->host_places, places, bytes(args->rows));
  Launch(*device, {dim3{static_cast<unsigned>(args->distinct)}, kThreads, 0}, ScatterKernel,
         tokens, starts, places, args->width, args->d_out, args->d_table);
}

}  // namespace skerry::cuda
