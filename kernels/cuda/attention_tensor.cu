// Causal attention on tensor cores for head sizes 64 and 128: the online softmax of FlashAttention
// (Dao and others 2022), with the work split of FlashAttention-2 (Dao 2023): a block owns 64
// queries forward, 64 keys or 64 queries backward, a warp 16 of them.
//
// Products take bf16 and add in float32; scores, probabilities and sums are float32. The backward
// pass computes scores twice, once for keys and values and once for queries, so that nothing is
// added atomically and every run gives the same bits; that is seven products instead of five.
#include <cmath>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace skerry::cuda {
namespace {

constexpr int kTile = 64;      // rows that a block owns
constexpr int kStreamed = 32;  // rows of the other side at a time, backward
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// Where a block's rows are: tokens of its sequence, columns of its heads.
struct Place {
  int64_t first, end;
  int64_t head;
  int64_t query, key;
};

__device__ __forceinline__ Place PlaceOf(const GpuAttention& a, int64_t head) {
  const int64_t first = static_cast<int64_t>(blockIdx.z) * a.context;
  return {first, first + a.context, head, head * a.head_size,
          head / (a.heads / a.kv_heads) * a.head_size};
}

template <int kHead>
struct ForwardShared {
  uint16_t q[kTile * kHead], k[kTile * kHead], v[kTile * kHead];
};

struct Softmax {
  float top[2] = {-INFINITY, -INFINITY};  // of rows g and g + 8, in units of log 2
  float sum[2] = {0, 0};                  // of this lane's columns
};

// Scores → probabilities relative to the new top; what was gathered before is scaled to it.
template <int kHead>
__device__ __forceinline__ void Normalise(float (&s)[kTile / 8][4], Softmax& softmax,
                                          float (&out)[kHead / 8][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = softmax.top[half];
#pragma unroll
    for (int group = 0; group < kTile / 8; ++group) {
      top = fmaxf(top, fmaxf(s[group][2 * half], s[group][2 * half + 1]));
    }
    top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 1));
    top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, 2));
    const float keep = exp2f(softmax.top[half] - top);
    softmax.top[half] = top;
    float sum = 0;
#pragma unroll
    for (int group = 0; group < kTile / 8; ++group) {
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[group][i] = exp2f(s[group][i] - top);
        sum += s[group][i];
      }
    }
    softmax.sum[half] = softmax.sum[half] * keep + sum;
#pragma unroll
    for (int group = 0; group < kHead / 8; ++group) {
      out[group][2 * half] *= keep;
      out[group][2 * half + 1] *= keep;
    }
  }
}

template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads) ForwardKernel(GpuAttention a, float scale) {
  auto& shared = Shared<ForwardShared<kHead>>();
  const Place at = PlaceOf(a, blockIdx.y);
  // The longest rows first: the last blocks to start are then short.
  const int64_t q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int warp_row = static_cast<int>(threadIdx.x / kLanes) * kWarpRows;
  LoadTile<kTile, kHead, T>(shared.q, a.q, at.first + q0, at.end, at.query);
  float out[kHead / 8][4] = {};
  Softmax softmax;
  for (int64_t k0 = 0; k0 <= q0; k0 += kTile) {
    __syncthreads();  // the tiles before have been read
    LoadTile<kTile, kHead, T>(shared.k, a.k, at.first + k0, at.end, at.key);
    LoadTile<kTile, kHead, T>(shared.v, a.v, at.first + k0, at.end, at.key);
    __syncthreads();
    float s[kTile / 8][4] = {};
    MultiplyTransposed<kTile / 8, kHead>(s, shared.q, warp_row, shared.k);
#pragma unroll
    for (int group = 0; group < kTile / 8; ++group) {
      for (int i = 0; i < 4; ++i) {
        // Keys past the context are behind every query, too.
        const bool hidden = k0 == q0 && 8 * group + ColumnOfSum(i) > warp_row + RowOfSum(i);
        s[group][i] = hidden ? -INFINITY : s[group][i] * scale;
      }
    }
    Normalise<kHead>(s, softmax, out);
    MultiplyByTile<kTile / 8, kHead>(out, s, shared.v);
  }
  float inverse[2];
  const int64_t row0 = at.first + q0 + warp_row;
  for (int half = 0; half < 2; ++half) {
    float sum = softmax.sum[half];
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    inverse[half] = 1 / sum;
    const int64_t row = row0 + RowOfSum(2 * half);
    if (threadIdx.x % 4 == 0 && row < at.end) {
      a.log_sum_exp[row * a.heads + at.head] = softmax.top[half] * kLn2 + logf(sum);
    }
  }
  StoreRows<kHead, T>(out, inverse, a.out, row0, at.end, at.query);
}

template <int kHead>
struct BackwardShared {
  uint16_t own[2][kTile * kHead];                    // k and v, or q and ∂out
  uint16_t streamed[2][kStreamed * kHead];           // the others
  float log_sum_exp[kStreamed], own_dot[kStreamed];  // of streamed queries
};

// ∂score = p·(∂p − ∂out·out); `p` holds scores, `d_p` ∂p, and then both what they are named.
__device__ __forceinline__ void Differentiate(float* p, float* d_p, float scale, float lse2,
                                              float own_dot, bool hidden) {
  *p = hidden ? 0 : exp2f(*p * scale - lse2);
  *d_p = hidden ? 0 : *p * (*d_p - own_dot);
}

template <int kHead, typename T>
__device__ __forceinline__ void LoadQueries(const GpuAttention& a, const Place& at, int64_t q0,
                                            const float* own_dot, BackwardShared<kHead>& shared) {
  LoadTile<kStreamed, kHead, T>(shared.streamed[0], a.q, at.first + q0, at.end, at.query);
  LoadTile<kStreamed, kHead, T>(shared.streamed[1], a.d_out, at.first + q0, at.end, at.query);
  if (threadIdx.x < kStreamed) {
    const bool there = at.first + q0 + threadIdx.x < at.end;
    const int64_t row = (at.first + q0 + threadIdx.x) * a.heads + at.head;
    // Queries past the context see nothing: e^(score − ∞) = 0.
    shared.log_sum_exp[threadIdx.x] = there ? a.log_sum_exp[row] * kLog2E : INFINITY;
    shared.own_dot[threadIdx.x] = there ? own_dot[row] : 0;
  }
}

// Keys and values: a block owns 64 keys of a kv head, and sees all queries of its heads from there
// on, 32 at a time. Scores are kept transposed, a warp's rows being keys.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    KeyGradientKernel(GpuAttention a, float scale, const float* own_dot) {
  auto& shared = Shared<BackwardShared<kHead>>();
  const int64_t group = a.heads / a.kv_heads, k0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int warp_row = static_cast<int>(threadIdx.x / kLanes) * kWarpRows;
  const Place own = PlaceOf(a, blockIdx.y * group);
  LoadTile<kTile, kHead, T>(shared.own[0], a.k, own.first + k0, own.end, own.key);
  LoadTile<kTile, kHead, T>(shared.own[1], a.v, own.first + k0, own.end, own.key);
  float d_k[kHead / 8][4] = {}, d_v[kHead / 8][4] = {};
  for (int64_t head = own.head; head < own.head + group; ++head) {
    for (int64_t q0 = k0; q0 < a.context; q0 += kStreamed) {
      __syncthreads();
      LoadQueries<kHead, T>(a, PlaceOf(a, head), q0, own_dot, shared);
      __syncthreads();
      float p[kStreamed / 8][4] = {}, d_p[kStreamed / 8][4] = {};
      MultiplyTransposed<kStreamed / 8, kHead>(p, shared.own[0], warp_row, shared.streamed[0]);
      MultiplyTransposed<kStreamed / 8, kHead>(d_p, shared.own[1], warp_row, shared.streamed[1]);
#pragma unroll
      for (int i = 0; i < kStreamed / 8 * 4; ++i) {
        const int query = i / 4 * 8 + ColumnOfSum(i % 4);
        const bool hidden = k0 + warp_row + RowOfSum(i % 4) > q0 + query;
        Differentiate(&p[i / 4][i % 4], &d_p[i / 4][i % 4], scale, shared.log_sum_exp[query],
                      shared.own_dot[query], hidden);
      }
      MultiplyByTile<kStreamed / 8, kHead>(d_v, p, shared.streamed[1]);
      MultiplyByTile<kStreamed / 8, kHead>(d_k, d_p, shared.streamed[0]);
    }
  }
  const int64_t row0 = own.first + k0 + warp_row;
  const float plain[2] = {1, 1}, scaled[2] = {scale * kLn2, scale * kLn2};
  StoreRows<kHead, T>(d_v, plain, a.d_v, row0, own.end, own.key);
  StoreRows<kHead, T>(d_k, scaled, a.d_k, row0, own.end, own.key);
}

// Queries: a block owns 64 of a head, and sees the keys up to its last one, 32 at a time.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    QueryGradientKernel(GpuAttention a, float scale, const float* own_dot) {
  auto& shared = Shared<BackwardShared<kHead>>();
  const Place at = PlaceOf(a, blockIdx.y);
  const int64_t q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int warp_row = static_cast<int>(threadIdx.x / kLanes) * kWarpRows;
  LoadTile<kTile, kHead, T>(shared.own[0], a.q, at.first + q0, at.end, at.query);
  LoadTile<kTile, kHead, T>(shared.own[1], a.d_out, at.first + q0, at.end, at.query);
  const int64_t row0 = at.first + q0 + warp_row;
  float lse2[2], dot[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t row = row0 + RowOfSum(2 * half), index = row * a.heads + at.head;
    lse2[half] = row < at.end ? a.log_sum_exp[index] * kLog2E : INFINITY;
    dot[half] = row < at.end ? own_dot[index] : 0;
  }
  float d_q[kHead / 8][4] = {};
  const int64_t end = q0 + kTile < a.context ? q0 + kTile : a.context;
  for (int64_t k0 = 0; k0 < end; k0 += kStreamed) {
    __syncthreads();
    LoadTile<kStreamed, kHead, T>(shared.streamed[0], a.k, at.first + k0, at.end, at.key);
    LoadTile<kStreamed, kHead, T>(shared.streamed[1], a.v, at.first + k0, at.end, at.key);
    __syncthreads();
    float p[kStreamed / 8][4] = {}, d_p[kStreamed / 8][4] = {};
    MultiplyTransposed<kStreamed / 8, kHead>(p, shared.own[0], warp_row, shared.streamed[0]);
    MultiplyTransposed<kStreamed / 8, kHead>(d_p, shared.own[1], warp_row, shared.streamed[1]);
#pragma unroll
    for (int i = 0; i < kStreamed / 8 * 4; ++i) {
      const int half = i % 4 / 2;
      const bool hidden = k0 + i / 4 * 8 + ColumnOfSum(i % 4) > q0 + warp_row + RowOfSum(i % 4);
      Differentiate(&p[i / 4][i % 4], &d_p[i / 4][i % 4], scale, lse2[half], dot[half], hidden);
    }
    MultiplyByTile<kStreamed / 8, kHead>(d_q, d_p, shared.streamed[0]);
  }
  const float scaled[2] = {scale * kLn2, scale * kLn2};
  StoreRows<kHead, T>(d_q, scaled, a.d_q, row0, at.end, at.query);
}

LaunchShape ShapeFor(const GpuAttention& a, int64_t heads, size_t shared_bytes) {
  return {dim3{static_cast<unsigned>(CeilDivide(a.context, kTile)), static_cast<unsigned>(heads),
               static_cast<unsigned>(a.sequences)},
          kAttentionThreads, shared_bytes};
}

// 1/√e, for powers of two.
float Scale(const GpuAttention& a) {
  return kLog2E / std::sqrt(static_cast<float>(a.head_size));
}

template <int kHead, typename T>
void Forward(GpuDevice& device, const GpuAttention& a) {
  Launch(device.stream, ShapeFor(a, a.heads, sizeof(ForwardShared<kHead>)), ForwardKernel<kHead, T>,
         a, Scale(a));
}

template <int kHead, typename T>
void Backward(GpuDevice& device, const GpuAttention& a, const float* own_dot) {
  constexpr size_t kBytes = sizeof(BackwardShared<kHead>);
  Launch(device.stream, ShapeFor(a, a.kv_heads, kBytes), KeyGradientKernel<kHead, T>, a, Scale(a),
         own_dot);
  Launch(device.stream, ShapeFor(a, a.heads, kBytes), QueryGradientKernel<kHead, T>, a, Scale(a),
         own_dot);
}

}  // namespace

void TensorForward(GpuDevice& device, const GpuAttention& args) {
  const bool bf16 = args.q.bf16 != 0;
  if (args.head_size == 64) {
    return bf16 ? Forward<64, uint16_t>(device, args) : Forward<64, float>(device, args);
  }
  return bf16 ? Forward<128, uint16_t>(device, args) : Forward<128, float>(device, args);
}

void TensorBackward(GpuDevice& device, const GpuAttention& args, const float* own_dot) {
  const bool bf16 = args.q.bf16 != 0;
  if (args.head_size == 64) {
    return bf16 ? Backward<64, uint16_t>(device, args, own_dot)
                : Backward<64, float>(device, args, own_dot);
  }
  return bf16 ? Backward<128, uint16_t>(device, args, own_dot)
              : Backward<128, float>(device, args, own_dot);
}

}  // namespace skerry::cuda
