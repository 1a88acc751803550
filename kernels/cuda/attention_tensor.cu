// Causal attention on tensor cores for head sizes 64 and 128: the online softmax of FlashAttention
// (Dao and others 2022), with the work split of FlashAttention-2 (Dao 2023): a block owns 128
// queries forward, 64 keys or 64 queries backward, a warp 32 or 16 of them. Tiles of bf16 come
// while those before are multiplied.
//
// Products take bf16 and add in float32; scores, probabilities and sums are float32. The backward
// pass computes scores twice, once for keys and values and once for queries, so that nothing is
// added atomically and every run gives the same bits; that is seven products instead of five.
#include <cmath>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace skerry::cuda {
namespace {

constexpr int kWarps = kAttentionThreads / kLanes;
constexpr int kParts = 2;  // of 16 queries that a warp owns, forward; backward one
constexpr int kQueries = kWarps * kParts * 16;  // that a block owns, forward
constexpr int kTile = kWarps * 16;              // rows that a block owns, backward
constexpr int kStreamed = 32;                   // rows of the other side at a time, backward
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
// Forward: 64 scores of a row beside the sums of 128 columns would not fit a thread's registers.
template <int kHead>
constexpr int kKeys = kHead == 64 ? 64 : 32;

__device__ __forceinline__ int Warp() {
  return static_cast<int>(threadIdx.x / kLanes);
}

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
__device__ __forceinline__ void StoreForward(const GpuAttention& a, const Place& at, int64_t row0,
                                             const Softmax& softmax, float scale,
                                             const float (&out)[kHead / 8][4]) {
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    float sum = softmax.sum[half];
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    inverse[half] = 1 / sum;
    const int64_t row = row0 + RowOfSum(2 * half);
    if (threadIdx.x % 4 == 0 && row < at.end) {
      a.log_sum_exp[row * a.heads + at.head] = softmax.top[half] * scale * kLn2 + logf(sum);
    }
  }
  StoreRows<kHead, T>(out, inverse, a.out, row0, at.end, at.query);
}

// Keys come while the scores before them are summed up, values while scores are multiplied: of each
// there is one tile.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads) ForwardKernel(GpuAttention a, float scale) {
  auto& shared = Shared<ForwardShared<kHead>>();
  const Place at = PlaceOf(a, blockIdx.y);
  // The longest rows first: the last blocks to start are then short.
  const int64_t q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const int64_t end = q0 + kQueries < a.context ? q0 + kQueries : a.context;
  const int warp_row = Warp() * kParts * 16;
  BeginTile<kQueries, kHead, T>(shared.q, a.q, at.first + q0, at.end, at.query);
  BeginTile<kKeys<kHead>, kHead, T>(shared.k, a.k, at.first, at.end, at.key);
  CommitCopies();
  float out[kParts][kHead / 8][4] = {};
  Softmax softmax[kParts];
  for (int64_t k0 = 0; k0 < end; k0 += kKeys<kHead>) {
    // Of the last tile the first warps see nothing.
    const bool sees = k0 < q0 + warp_row + kParts * 16;
    WaitForCopies<0>();
    __syncthreads();  // the keys are there, and the values before have been read
    BeginTile<kKeys<kHead>, kHead, T>(shared.v, a.v, at.first + k0, at.end, at.key);
    CommitCopies();
    float s[kParts][kKeys<kHead> / 8][4] = {};
    if (sees) MultiplyTransposed<kParts, kKeys<kHead> / 8, kHead>(s, shared.q, warp_row, shared.k);
    WaitForCopies<0>();
    __syncthreads();  // the values are there, and the keys have been read
    if (k0 + kKeys<kHead> < end) {
      BeginTile<kKeys<kHead>, kHead, T>(shared.k, a.k, at.first + k0 + kKeys<kHead>, at.end,
                                        at.key);
      CommitCopies();
    }
    if (!sees) continue;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int64_t own_key = q0 + warp_row + 16 * part - k0;
      if (own_key < kKeys<kHead> - 1) Hide(s[part], static_cast<int>(own_key));
      Normalise<kHead>(s[part], softmax[part], scale, out[part]);
    }
    MultiplyByTile<kParts, kKeys<kHead> / 8, kHead>(out, s, shared.v);
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    StoreForward<kHead, T>(a, at, at.first + q0 + warp_row + 16 * part, softmax[part], scale,
                           out[part]);
  }
}

// Rows of the other side: q and ∂out, or k and v.
template <int kHead>
struct Streamed {
  uint16_t rows[2][kStreamed * kHead];
  float log_sum_exp[kStreamed], own_dot[kStreamed];  // of queries
};
template <int kHead>
struct BackwardShared {
  uint16_t own[2][kTile * kHead];  // k and v, or q and ∂out
  Streamed<kHead> streamed[2];     // one is read while the other comes
};

// ∂score = p·(∂p − ∂out·out); `p` holds scores, `d_p` ∂p, and then both what they are named.
__device__ __forceinline__ void Differentiate(float* p, float* d_p, float scale, float lse2,
                                              float own_dot, bool hidden) {
  *p = hidden ? 0 : ExpTwo(*p * scale - lse2);
  *d_p = hidden ? 0 : *p * (*d_p - own_dot);
}

// Queries past the context are zeros, and so is what they give: p = 1, but of no ∂out.
template <int kHead, typename T>
__device__ __forceinline__ void BeginQueries(const GpuAttention& a, const Place& at, int64_t q0,
                                             const float* own_dot, Streamed<kHead>& to) {
  BeginTile<kStreamed, kHead, T>(to.rows[0], a.q, at.first + q0, at.end, at.query);
  BeginTile<kStreamed, kHead, T>(to.rows[1], a.d_out, at.first + q0, at.end, at.query);
  if (threadIdx.x < kStreamed) {
    const bool there = at.first + q0 + threadIdx.x < at.end;
    const int64_t row = there ? (at.first + q0 + threadIdx.x) * a.heads + at.head : 0;
    CopyAsync4(&to.log_sum_exp[threadIdx.x], a.log_sum_exp + row, there);
    CopyAsync4(&to.own_dot[threadIdx.x], own_dot + row, there);
  }
  CommitCopies();
}

// Keys and values: a block owns 64 keys of a kv head, and sees all queries of its heads from there
// on, 32 at a time. Scores are kept transposed, a warp's rows being keys.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    KeyGradientKernel(GpuAttention a, float scale, const float* own_dot) {
  auto& shared = Shared<BackwardShared<kHead>>();
  const int64_t group = a.heads / a.kv_heads, k0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int warp_row = Warp() * 16;
  const Place own = PlaceOf(a, blockIdx.y * group);
  BeginTile<kTile, kHead, T>(shared.own[0], a.k, own.first + k0, own.end, own.key);
  BeginTile<kTile, kHead, T>(shared.own[1], a.v, own.first + k0, own.end, own.key);
  BeginQueries<kHead, T>(a, own, k0, own_dot, shared.streamed[0]);
  float d_k[1][kHead / 8][4] = {}, d_v[1][kHead / 8][4] = {};
  int64_t head = own.head, q0 = k0;
  for (int turn = 0; head < own.head + group; turn ^= 1) {
    const bool is_last = q0 + kStreamed >= a.context;
    const int64_t next_head = is_last ? head + 1 : head, next_q0 = is_last ? k0 : q0 + kStreamed;
    Streamed<kHead>& queries = shared.streamed[turn];
    WaitForCopies<0>();
    __syncthreads();  // these are there, and the others have been read
    if (next_head < own.head + group) {
      BeginQueries<kHead, T>(a, PlaceOf(a, next_head), next_q0, own_dot, shared.streamed[turn ^ 1]);
    }
    float p[1][kStreamed / 8][4] = {}, d_p[1][kStreamed / 8][4] = {};
    MultiplyTransposed<1, kStreamed / 8, kHead>(p, shared.own[0], warp_row, queries.rows[0]);
    MultiplyTransposed<1, kStreamed / 8, kHead>(d_p, shared.own[1], warp_row, queries.rows[1]);
#pragma unroll
    for (int i = 0; i < kStreamed / 8 * 4; ++i) {
      const int query = i / 4 * 8 + ColumnOfSum(i % 4);
      const bool hidden = k0 + warp_row + RowOfSum(i % 4) > q0 + query;
      Differentiate(&p[0][i / 4][i % 4], &d_p[0][i / 4][i % 4], scale,
                    queries.log_sum_exp[query] * kLog2E, queries.own_dot[query], hidden);
    }
    MultiplyByTile<1, kStreamed / 8, kHead>(d_v, p, queries.rows[1]);
    MultiplyByTile<1, kStreamed / 8, kHead>(d_k, d_p, queries.rows[0]);
    head = next_head;
    q0 = next_q0;
  }
  const int64_t row0 = own.first + k0 + warp_row;
  const float plain[2] = {1, 1}, scaled[2] = {scale * kLn2, scale * kLn2};
  StoreRows<kHead, T>(d_v[0], plain, a.d_v, row0, own.end, own.key);
  StoreRows<kHead, T>(d_k[0], scaled, a.d_k, row0, own.end, own.key);
}

template <int kHead, typename T>
__device__ __forceinline__ void BeginKeys(const GpuAttention& a, const Place& at, int64_t k0,
                                          Streamed<kHead>& to) {
  BeginTile<kStreamed, kHead, T>(to.rows[0], a.k, at.first + k0, at.end, at.key);
  BeginTile<kStreamed, kHead, T>(to.rows[1], a.v, at.first + k0, at.end, at.key);
  CommitCopies();
}

// Queries: a block owns 64 of a head, and sees the keys up to its last one, 32 at a time.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    QueryGradientKernel(GpuAttention a, float scale, const float* own_dot) {
  auto& shared = Shared<BackwardShared<kHead>>();
  const Place at = PlaceOf(a, blockIdx.y);
  const int64_t q0 = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int warp_row = Warp() * 16;
  BeginTile<kTile, kHead, T>(shared.own[0], a.q, at.first + q0, at.end, at.query);
  BeginTile<kTile, kHead, T>(shared.own[1], a.d_out, at.first + q0, at.end, at.query);
  BeginKeys<kHead, T>(a, at, 0, shared.streamed[0]);
  const int64_t row0 = at.first + q0 + warp_row;
  float lse2[2], dot[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t row = row0 + RowOfSum(2 * half), index = row * a.heads + at.head;
    lse2[half] = row < at.end ? a.log_sum_exp[index] * kLog2E : INFINITY;
    dot[half] = row < at.end ? own_dot[index] : 0;
  }
  float d_q[1][kHead / 8][4] = {};
  const int64_t end = q0 + kTile < a.context ? q0 + kTile : a.context;
  int turn = 0;
  for (int64_t k0 = 0; k0 < end; k0 += kStreamed, turn ^= 1) {
    Streamed<kHead>& keys = shared.streamed[turn];
    WaitForCopies<0>();
    __syncthreads();  // these are there, and the others have been read
    if (k0 + kStreamed < end) {
      BeginKeys<kHead, T>(a, at, k0 + kStreamed, shared.streamed[turn ^ 1]);
    }
    float p[1][kStreamed / 8][4] = {}, d_p[1][kStreamed / 8][4] = {};
    MultiplyTransposed<1, kStreamed / 8, kHead>(p, shared.own[0], warp_row, keys.rows[0]);
    MultiplyTransposed<1, kStreamed / 8, kHead>(d_p, shared.own[1], warp_row, keys.rows[1]);
#pragma unroll
    for (int i = 0; i < kStreamed / 8 * 4; ++i) {
      const int half = i % 4 / 2;
      const bool hidden = k0 + i / 4 * 8 + ColumnOfSum(i % 4) > q0 + warp_row + RowOfSum(i % 4);
      Differentiate(&p[0][i / 4][i % 4], &d_p[0][i / 4][i % 4], scale, lse2[half], dot[half],
                    hidden);
    }
    MultiplyByTile<1, kStreamed / 8, kHead>(d_q, d_p, keys.rows[0]);
  }
  const float scaled[2] = {scale * kLn2, scale * kLn2};
  StoreRows<kHead, T>(d_q[0], scaled, a.d_q, row0, at.end, at.query);
}

LaunchShape ShapeFor(const GpuAttention& a, int rows, int64_t heads, size_t shared_bytes) {
  return {dim3{static_cast<unsigned>(CeilDivide(a.context, rows)), static_cast<unsigned>(heads),
               static_cast<unsigned>(a.sequences)},
          kAttentionThreads, shared_bytes};
}

// 1/√e, for powers of two.
float Scale(const GpuAttention& a) {
  return kLog2E / std::sqrt(static_cast<float>(a.head_size));
}

template <int kHead, typename T>
void Forward(GpuDevice& device, const GpuAttention& a) {
  Launch(device, ShapeFor(a, kQueries, a.heads, sizeof(ForwardShared<kHead>)),
         ForwardKernel<kHead, T>, a, Scale(a));
}

template <int kHead, typename T>
void Backward(GpuDevice& device, const GpuAttention& a, const float* own_dot) {
  constexpr size_t kBytes = sizeof(BackwardShared<kHead>);
  Launch(device, ShapeFor(a, kTile, a.kv_heads, kBytes), KeyGradientKernel<kHead, T>, a, Scale(a),
         own_dot);
  Launch(device, ShapeFor(a, kTile, a.heads, kBytes), QueryGradientKernel<kHead, T>, a, Scale(a),
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
