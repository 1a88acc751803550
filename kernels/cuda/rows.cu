// A block to a row of logits: cross-entropy; and the embedding, a block to a token.
#include <cfloat>
#include <cmath>

#include "kernels/cuda/every_value.h"

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

// Four logits of a thread: neighbours where rows are packs, else each a block from the next, which
// asks for as many at a time.
template <bool kPacked>
struct OwnLogits {
  Pack<kHalf> of;
  int64_t first;  // of the block's

  __device__ __forceinline__ int64_t At(unsigned j) const {
    return kPacked ? first + threadIdx.x * kHalf + j : first + j * blockDim.x + threadIdx.x;
  }
  // −∞ past the end.
  __device__ __forceinline__ OwnLogits(const float* logits, int64_t from, int64_t end)
      : first(from) {
    const Row row = {const_cast<float*>(logits), false};
    if (kPacked && At(0) < end) {
      of = Take<kHalf>(row, At(0));
      return;
    }
    for (unsigned j = 0; j < kHalf; ++j)
      of.of[j] = !kPacked && At(j) < end ? row[At(j)] : -INFINITY;
  }
};

// A row's logits: Σ e^logit = sum · e^top.
struct LogitSum {
  float top, sum;
};

template <bool kPacked>
__device__ LogitSum SumOfRow(const GpuCrossEntropy& a, const float* row, LossShared& shared) {
  // In one pass over the row, which no cache holds; −∞ adds nothing to a top that is finite.
  float own_top = -FLT_MAX, sum = 0;
  for (int64_t i = 0; i < a.vocabulary; i += int64_t{kHalf} * blockDim.x) {
    const OwnLogits<kPacked> logits(row, i, a.vocabulary);
    float top = own_top;
    for (const float logit : logits.of.of) top = fmaxf(top, logit);
    sum *= expf(own_top - top);
    for (const float logit : logits.of.of) sum += expf(logit - top);
    own_top = top;
  }
  const float top = BlockMax(own_top, shared.tops);
  return {top, BlockSum(sum * expf(own_top - top), shared.sums)};
}

// With z = log Σ e^logit a token loses z − logit(target) + z_loss·z², so the gradient is
// p·(1 + 2·z_loss·z) − [target].
template <bool kPacked>
__device__ void ScoreRow(const GpuCrossEntropy& a, LogitSum all, float aim, int64_t target) {
  const float log_sum = logf(all.sum), z = all.top + log_sum;
  if (threadIdx.x == 0) a.losses[blockIdx.x] = all.top - aim + log_sum + a.z_loss * z * z;
  if (a.d_logits.values == nullptr) return;
  const float* row = a.logits + blockIdx.x * a.vocabulary;
  const float scale = a.gradient_scale * (1 + 2 * a.z_loss * z) / all.sum;
  const Row out = RowAt(a.d_logits, blockIdx.x);
  for (int64_t i = 0; i < a.vocabulary; i += int64_t{kHalf} * blockDim.x) {
    OwnLogits<kPacked> own(row, i, a.vocabulary);
    for (unsigned j = 0; j < kHalf; ++j) {
      const float aimed = own.At(j) == target ? a.gradient_scale : 0;
      own.of.of[j] = expf(own.of.of[j] - all.top) * scale - aimed;
    }
    if constexpr (kPacked) {
      if (own.At(0) < a.vocabulary) Put(out, own.At(0), own.of);
    } else {
      for (unsigned j = 0; j < kHalf; ++j) {
        if (own.At(j) < a.vocabulary) out.Set(own.At(j), own.of.of[j]);
      }
    }
  }
}

template <bool kPacked>
__global__ void CrossEntropyKernel(GpuCrossEntropy a, const int32_t* targets) {
  auto& shared = Shared<LossShared>();
  const float* row = a.logits + blockIdx.x * a.vocabulary;
  const LogitSum all = SumOfRow<kPacked>(a, row, shared);
  const int64_t target = targets[blockIdx.x];
  const float aim = row[target];
  __syncthreads();  // it has been read
  ScoreRow<kPacked>(a, all, aim, target);
}

template <bool kPacked>
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
  ScoreRow<kPacked>(a, all, aim, targets[blockIdx.x]);
}

template <bool kPacked>
__global__ void LogitStatisticsKernel(GpuCrossEntropy a, const int32_t* targets) {
  auto& shared = Shared<LossShared>();
  const float* row = a.logits + blockIdx.x * a.vocabulary;
  const LogitSum all = SumOfRow<kPacked>(a, row, shared);
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
#pragma unroll 8
    for (int32_t p = first; p < end; ++p) sum += d_out[places[p] * width + i];
    to[i] = sum;
  }
}

using LossKernel = void (*)(GpuCrossEntropy, const int32_t* targets);

// `kernels`: of packed rows, and of any.
void LaunchWithTargets(GpuDevice* device, const GpuCrossEntropy& args,
                       const LossKernel (&kernels)[2]) {
  auto* targets = args.rows == 0 ? nullptr : Scratch<int32_t>(*device, args.rows);
  if (targets == nullptr) return;
  CopyIn(*device, args.host_targets, targets, static_cast<size_t>(args.rows) * sizeof(int32_t));
  const GpuTensor logits = Line(args.logits, args.vocabulary);
  const bool packed = InPacks<kHalf>(args.vocabulary, {logits, args.d_logits});
  // Logits come a few hundred rows at a time: of these a large device holds two blocks of 512.
  constexpr int64_t kLong = 8192;
  const unsigned threads = args.vocabulary < kLong ? kThreads : 2 * kThreads;
  Launch(*device, {dim3{static_cast<unsigned>(args.rows)}, threads, sizeof(LossShared)},
         kernels[packed ? 0 : 1], args, targets);
}

}  // namespace

void CrossEntropy(GpuDevice* device, const GpuCrossEntropy* args) {
  if (args->parts > 0) {
    return LaunchWithTargets(device, *args,
                             {CrossEntropyOfPartsKernel<true>, CrossEntropyOfPartsKernel<false>});
  }
  LaunchWithTargets(device, *args, {CrossEntropyKernel<true>, CrossEntropyKernel<false>});
}

void LogitStatistics(GpuDevice* device, const GpuCrossEntropy* args) {
  LaunchWithTargets(device, *args, {LogitStatisticsKernel<true>, LogitStatisticsKernel<false>});
}

void EmbeddingForward(GpuDevice* device, const int32_t* host_tokens, int64_t rows, int64_t width,
                      const float* table, float* out) {
  auto* tokens = rows == 0 ? nullptr : Scratch<int32_t>(*device, rows);
  if (tokens == nullptr) return;
  CopyIn(*device, host_tokens, tokens, static_cast<size_t>(rows) * sizeof(int32_t));
  Launch(*device, {dim3{static_cast<unsigned>(rows)}, kThreads, 0}, GatherKernel, tokens, width,
         table, out);
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
  Launch(*device, {dim3{static_cast<unsigned>(args->distinct)}, kThreads, 0}, ScatterKernel, tokens,
         starts, places, args->width, args->d_out, args->d_table);
}

}  // namespace skerry::cuda
