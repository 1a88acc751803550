// Causal attention on tensor cores for head sizes 64 and 128: the online softmax of FlashAttention
// (Dao and others 2022), with the work split of FlashAttention-2 (Dao 2023): a block owns 128
// queries or keys, a warp 32 of them, so that what is taken of the other side's tiles serves two
// products; of keys of 128 values, whose gradients are two, half as many. Tiles of bf16 come while
// those before are multiplied.
//
// Products take bf16 and add in float32; scores, probabilities and sums are float32.
#include <cmath>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace skerry::cuda {
namespace {

// 64 scores of a row beside the sums of 128 columns would not fit a thread's registers.
template <int kHead>
constexpr int kKeys = kHead == 64 ? 64 : 32;

template <int kHead>
struct ForwardShared {
  uint16_t q[kQueries * kHead], k[kKeys<kHead> * kHead], v[kKeys<kHead> * kHead];
};

struct Softmax {
  float top[2] = {-INFINITY, -INFINITY};  // of rows g and g + 8
  float sum[2] = {0, 0};                  // of this lane's columns
};

// Scores → probabilities relative to the new top; what was gathered before is scaled to it. Powers
// are of two: `scale` has log2 e in it.
template <int kHead>
__device__ __forceinline__ void Normalise(float (&s)[kKeys<kHead> / 8][4], Softmax& softmax,
                                          float scale, float (&out)[kHead / 8][4]) {
  float keep[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = softmax.top[half];
#pragma unroll
    for (int group = 0; group < kKeys<kHead> / 8; ++group) {
      top = fmaxf(top, fmaxf(s[group][2 * half], s[group][2 * half + 1]));
    }
    top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 1));
    top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 2));
    keep[half] = ExpTwo((softmax.top[half] - top) * scale);
    softmax.top[half] = top;
    const float scaled_top = top * scale;
    float sum = 0;
#pragma unroll
    for (int group = 0; group < kKeys<kHead> / 8; ++group) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[group][i] = ExpTwo(s[group][i] * scale - scaled_top);
        sum += s[group][i];
      }
    }
    softmax.sum[half] = softmax.sum[half] * keep[half] + sum;
  }
  // Most tiles of a long row bring no new top.
  if (__ballot_sync(kWholeWarp, keep[0] != 1 || keep[1] != 1) == 0) return;
#pragma unroll
  for (int group = 0; group < kHead / 8; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[group][i] *= keep[i / 2];
  }
}

// Keys behind `last_key`, which is the query's own and may be before the tile; keys past the
// context are behind every query, too.
template <int kGroups>
__device__ __forceinline__ void Hide(float (&s)[kGroups][4], int last_key) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (8 * group + ColumnOfSum(i) > last_key + RowOfSum(i)) s[group][i] = -INFINITY;
    }
  }
}

template <int kHead, typename T>
__device__ __forceinline__ void StoreForward(const GpuAttention& a, const Place& at, int row0,
                                             const Softmax& softmax, float scale,
                                             const float (&out)[kHead / 8][4]) {
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    float sum = softmax.sum[half];
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    inverse[half] = 1 / sum;
    const int row = row0 + RowOfSum(2 * half);
    if (threadIdx.x % 4 == 0 && row < at.context) {
      a.log_sum_exp[(at.first + row) * a.heads + at.head] =
          softmax.top[half] * scale * kLn2 + logf(sum);
    }
  }
  StoreRows<kHead, T>(out, inverse, a.out, at.first + row0, at.context - row0, at.query);
}

// Keys come while the scores before them are summed up, values while scores are multiplied: of each
// there is one tile.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads) ForwardKernel(GpuAttention a, float scale) {
  auto& shared = Shared<ForwardShared<kHead>>();
  const Place at = PlaceOf(a, static_cast<int>(blockIdx.y));
  // The longest rows first: the last blocks to start are then short.
  const int q0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const int end = q0 + kQueries < at.context ? q0 + kQueries : at.context;
  const int warp_row = Warp() * kParts * 16;
  BeginTile<kQueries, kHead, T>(shared.q, a.q, at.first + q0, at.context - q0, at.query);
  BeginTile<kKeys<kHead>, kHead, T>(shared.k, a.k, at.first, at.context, at.key);
  CommitCopies();
  float out[kParts][kHead / 8][4] = {};
  Softmax softmax[kParts];
  for (int k0 = 0; k0 < end; k0 += kKeys<kHead>) {
    // Of the last tile the first warps see nothing.
    const bool sees = k0 < q0 + warp_row + kParts * 16;
    WaitForCopies<0>();
    __syncthreads();  // the keys are there, and the values before have been read
    BeginTile<kKeys<kHead>, kHead, T>(shared.v, a.v, at.first + k0, at.context - k0, at.key);
    CommitCopies();
    float s[kParts][kKeys<kHead> / 8][4] = {};
    if (sees) MultiplyTransposed<kParts, kKeys<kHead> / 8, kHead>(s, shared.q, warp_row, shared.k);
    WaitForCopies<0>();
    __syncthreads();  // the values are there, and the keys have been read
    if (k0 + kKeys<kHead> < end) {
      const int next = k0 + kKeys<kHead>;
      BeginTile<kKeys<kHead>, kHead, T>(shared.k, a.k, at.first + next, at.context - next, at.key);
      CommitCopies();
    }
    if (!sees) continue;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int own_key = q0 + warp_row + 16 * part - k0;
      if (own_key < kKeys<kHead> - 1) Hide(s[part], own_key);
      Normalise<kHead>(s[part], softmax[part], scale, out[part]);
    }
    MultiplyByTile<kParts, kKeys<kHead> / 8, kHead>(out, s, shared.v);
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    StoreForward<kHead, T>(a, at, q0 + warp_row + 16 * part, softmax[part], scale, out[part]);
  }
}

template <int kHead, typename T>
void Forward(GpuDevice& device, const GpuAttention& a) {
  Launch(device, ShapeFor(a, kQueries, a.heads, sizeof(ForwardShared<kHead>)),
         ForwardKernel<kHead, T>, a, Scale(a));
}

}  // namespace

void TensorForward(GpuDevice& device, const GpuAttention& args) {
  const bool bf16 = args.q.bf16 != 0;
  if (args.head_size == 64) {
    return bf16 ? Forward<64, uint16_t>(device, args) : Forward<64, float>(device, args);
  }
  return bf16 ? Forward<128, uint16_t>(device, args) : Forward<128, float>(device, args);
}

}  // namespace skerry::cuda
