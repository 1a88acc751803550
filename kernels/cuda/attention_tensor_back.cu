// The backward pass of attention_tensor.cu. Scores are computed twice, once for keys and values and
// once for queries, so that nothing is added atomically and every run gives the same bits; that is
// seven products instead of five.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace skerry::cuda {
namespace {

constexpr int kStreamed = 32;  // rows of the other side at a time
// Sixteens of keys that a warp owns: sums of 128 columns of two gradients would not fit for more.
template <int kHead>
constexpr int kKeyParts = kHead == 64 ? 2 : 1;

// Rows of the other side: q and ∂out, or k and v.
template <int kHead>
struct Streamed {
  uint16_t rows[2][kStreamed * kHead];
  float log_sum_exp[kStreamed], own_dot[kStreamed];  // of queries
};
template <int kHead, int kOwn>
struct BackwardShared {
  uint16_t own[2][kOwn * kHead];  // k and v, or q and ∂out
  Streamed<kHead> streamed[2];    // one is read while the other comes
};

// Sums of a warp's parts with kStreamed rows of the other side.
template <int kOwnParts>
struct Scores {
  float p[kOwnParts][kStreamed / 8][4] = {}, d_p[kOwnParts][kStreamed / 8][4] = {};

  // ∂score = p·(∂p − ∂out·out); `p` holds scores, `d_p` ∂p, and then both what they are named.
  __device__ __forceinline__ void Differentiate(int part, int i, float scale, float lse2,
                                                float own_dot) {
    float &probability = p[part][i / 4][i % 4], &gradient = d_p[part][i / 4][i % 4];
    probability = ExpTwo(probability * scale - lse2);
    gradient = probability * (gradient - own_dot);
  }
  // Where hidden(row, column), counted from the warp's first row and the first of the others.
  template <typename Hidden>
  __device__ __forceinline__ void Hide(const Hidden& hidden) {
#pragma unroll
    for (int part = 0; part < kOwnParts; ++part) {
#pragma unroll
      for (int i = 0; i < kStreamed / 2; ++i) {
        if (!hidden(16 * part + RowOfSum(i % 4), i / 4 * 8 + ColumnOfSum(i % 4))) continue;
        p[part][i / 4][i % 4] = d_p[part][i / 4][i % 4] = 0;
      }
    }
  }
};

// Queries past the context are zeros, and so is what they give: p = 1, but of no ∂out.
template <int kHead, typename T>
__device__ __forceinline__ void BeginQueries(const GpuAttention& a, const Place& at, int q0,
                                             const float* own_dot, Streamed<kHead>& to) {
  BeginTile<kStreamed, kHead, T>(to.rows[0], a.q, at.first + q0, at.context - q0, at.query);
  BeginTile<kStreamed, kHead, T>(to.rows[1], a.d_out, at.first + q0, at.context - q0, at.query);
  if (threadIdx.x < kStreamed) {
    const bool there = q0 + static_cast<int>(threadIdx.x) < at.context;
    const int64_t row = there ? (at.first + q0 + threadIdx.x) * a.heads + at.head : 0;
    CopyAsync4(&to.log_sum_exp[threadIdx.x], a.log_sum_exp + row, there);
    CopyAsync4(&to.own_dot[threadIdx.x], own_dot + row, there);
  }
  CommitCopies();
}

// What a warp adds to the gradients of its keys and values by kStreamed queries, which are `behind`
// rows further on than its first key; scores are kept transposed, rows being keys.
template <int kHead, int kOwnParts>
__device__ __forceinline__ void AddToKeys(BackwardShared<kHead, kWarps * kOwnParts * 16>& shared,
                                          Streamed<kHead>& queries, int behind, float scale,
                                          float (&d_k)[kOwnParts][kHead / 8][4],
                                          float (&d_v)[kOwnParts][kHead / 8][4]) {
  constexpr int kGroups = kStreamed / 8, kRows = 16 * kOwnParts;
  const int warp_row = Warp() * kRows;
  if (behind <= -kStreamed) return;  // none sees a key of this warp
  Scores<kOwnParts> scores;
  MultiplyTransposed<kOwnParts, kGroups, kHead>(scores.p, shared.own[0], warp_row, queries.rows[0]);
  MultiplyTransposed<kOwnParts, kGroups, kHead>(scores.d_p, shared.own[1], warp_row,
                                                queries.rows[1]);
#pragma unroll
  for (int column = 0; column < 2 * kGroups; ++column) {
    const int query = column / 2 * 8 + ColumnOfSum(column % 2);
    const float lse2 = queries.log_sum_exp[query] * kLog2E, dot = queries.own_dot[query];
#pragma unroll
    for (int part = 0; part < kOwnParts; ++part) {
      for (int half = 0; half < 2; ++half) {
        scores.Differentiate(part, column / 2 * 4 + column % 2 + 2 * half, scale, lse2, dot);
      }
    }
  }
  if (behind < kRows - 1) {
    scores.Hide([&](int key, int query) { return key > query + behind; });
  }
  MultiplyByTile<kOwnParts, kGroups, kHead>(d_v, scores.p, queries.rows[1]);
  MultiplyByTile<kOwnParts, kGroups, kHead>(d_k, scores.d_p, queries.rows[0]);
}

// Keys and values: a block owns some of a kv head, and sees all queries of its heads from there on,
// 32 at a time.
template <int kHead, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    KeyGradientKernel(GpuAttention a, float scale, const float* own_dot) {
  constexpr int kOwnParts = kKeyParts<kHead>, kOwn = kWarps * kOwnParts * 16;
  auto& shared = Shared<BackwardShared<kHead, kOwn>>();
  const int group = static_cast<int>(a.heads / a.kv_heads);
  const int k0 = static_cast<int>(blockIdx.x) * kOwn;
  const int warp_row = Warp() * kOwnParts * 16;
  const Place own = PlaceOf(a, static_cast<int>(blockIdx.y) * group);
  BeginTile<kOwn, kHead, T>(shared.own[0], a.k, own.first + k0, own.context - k0, own.key);
  BeginTile<kOwn, kHead, T>(shared.own[1], a.v, own.first + k0, own.context - k0, own.key);
  BeginQueries<kHead, T>(a, own, k0, own_dot, shared.streamed[0]);
  float d_k[kOwnParts][kHead / 8][4] = {}, d_v[kOwnParts][kHead / 8][4] = {};
  int head = own.head, q0 = k0;
  for (int turn = 0; head < own.head + group; turn ^= 1) {
    const bool is_last = q0 + kStreamed >= own.context;
    const int next_head = is_last ? head + 1 : head, next_q0 = is_last ? k0 : q0 + kStreamed;
    WaitForCopies<0>();
    __syncthreads();  // these are there, and the others have been read
    if (next_head < own.head + group) {
      BeginQueries<kHead, T>(a, PlaceOf(a, next_head), next_q0, own_dot, shared.streamed[turn ^ 1]);
    }
    AddToKeys<kHead, kOwnParts>(shared, shared.streamed[turn], q0 - k0 - warp_row, scale, d_k, d_v);
    head = next_head;
    q0 = next_q0;
  }
  const float plain[2] = {1, 1}, scaled[2] = {scale * kLn2, scale * kLn2};
#pragma unroll
  for (int part = 0; part < kOwnParts; ++part) {
    const int row0 = k0 + warp_row + 16 * part, rows = own.context - row0;
    StoreRows<kHead, T>(d_v[part], plain, a.d_v, own.first + row0, rows, own.key);
    StoreRows<kHead, T>(d_k[part], scaled, a.d_k, own.first + row0, rows, own.key);
  }
}

template <int kHead, typename T>
__device__ __forceinline__ void BeginKeys(const GpuAttention& a, const Place& at, int k0,
                                          Streamed<kHead>& to) {
  BeginTile<kStreamed, kHead, T>(to.rows[0], a.k, at.first + k0, at.context - k0, at.key);
  BeginTile<kStreamed, kHead, T>(to.rows[1], a.v, at.first + k0, at.context - k0, at.key);
  CommitCopies();
}

// What a warp adds to the gradient of its queries by kStreamed keys, which are `behind` rows
// further on than its first query.
template <int kHead, int kOwnParts>
__device__ __forceinline__ void AddToQueries(BackwardShared<kHead, kWarps * kOwnParts * 16>& shared,
                                             Streamed<kHead>& keys, int behind, float scale,
                                             const float (&lse2)[kOwnParts][2],
                                             const float (&dot)[kOwnParts][2],
                                             float (&d_q)[kOwnParts][kHead / 8][4]) {
  constexpr int kGroups = kStreamed / 8, kRows = 16 * kOwnParts;
  if (behind >= kRows) return;  // no query of this warp sees them
  Scores<kOwnParts> scores;
  MultiplyTransposed<kOwnParts, kGroups, kHead>(scores.p, shared.own[0], Warp() * kRows,
                                                keys.rows[0]);
  MultiplyTransposed<kOwnParts, kGroups, kHead>(scores.d_p, shared.own[1], Warp() * kRows,
                                                keys.rows[1]);
#pragma unroll
  for (int part = 0; part < kOwnParts; ++part) {
#pragma unroll
    for (int i = 0; i < 4 * kGroups; ++i)
      scores.Differentiate(part, i, scale, lse2[part][i % 4 / 2], dot[part][i % 4 / 2]);
  }
  if (behind > 1 - kStreamed) {
    scores.Hide([&](int query, int key) { return key + behind > query; });
  }
  MultiplyByTile<kOwnParts, kGroups, kHead>(d_q, scores.d_p, keys.rows[0]);
}

// Queries: a block sees the keys up to its last one, 32 at a time.
template <int kHead, int kOwnParts, typename T>
__global__ void __launch_bounds__(kAttentionThreads)
    QueryGradientKernel(GpuAttention a, float scale, const float* own_dot) {
  constexpr int kOwn = kWarps * kOwnParts * 16;
  auto& shared = Shared<BackwardShared<kHead, kOwn>>();
  const Place at = PlaceOf(a, static_cast<int>(blockIdx.y));
  const int q0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kOwn;
  const int warp_row = Warp() * kOwnParts * 16;
  BeginTile<kOwn, kHead, T>(shared.own[0], a.q, at.first + q0, at.context - q0, at.query);
  BeginTile<kOwn, kHead, T>(shared.own[1], a.d_out, at.first + q0, at.context - q0, at.query);
  BeginKeys<kHead, T>(a, at, 0, shared.streamed[0]);
  const int row0 = q0 + warp_row;
  float lse2[kOwnParts][2], dot[kOwnParts][2];
#pragma unroll
  for (int i = 0; i < 2 * kOwnParts; ++i) {
    const int row = row0 + 16 * (i / 2) + RowOfSum(i % 2 * 2);
    const int64_t index = (at.first + row) * a.heads + at.head;
    lse2[i / 2][i % 2] = row < at.context ? a.log_sum_exp[index] * kLog2E : INFINITY;
    dot[i / 2][i % 2] = row < at.context ? own_dot[index] : 0;
  }
  float d_q[kOwnParts][kHead / 8][4] = {};
  const int end = q0 + kOwn < at.context ? q0 + kOwn : at.context;
  int turn = 0;
  for (int k0 = 0; k0 < end; k0 += kStreamed, turn ^= 1) {
    WaitForCopies<0>();
    __syncthreads();  // these are there, and the others have been read
    if (k0 + kStreamed < end) {
      BeginKeys<kHead, T>(a, at, k0 + kStreamed, shared.streamed[turn ^ 1]);
    }
    AddToQueries<kHead, kOwnParts>(shared, shared.streamed[turn], k0 - q0 - warp_row, scale, lse2,
                                   dot, d_q);
  }
  const float scaled[2] = {scale * kLn2, scale * kLn2};
#pragma unroll
  for (int part = 0; part < kOwnParts; ++part) {
    const int row = row0 + 16 * part;
    StoreRows<kHead, T>(d_q[part], scaled, a.d_q, at.first + row, at.context - row, at.query);
  }
}

template <int kHead, int kOwnParts>
constexpr size_t kSharedBytes = sizeof(BackwardShared<kHead, kWarps * kOwnParts * 16>);

// 32 queries a warp where a multiprocessor then still holds two blocks, or held but one with 16
// too; of 128 values that leaves out the A100.
template <int kHead>
bool TakesTwoParts(const GpuDevice& device) {
  constexpr size_t kReserved = 1 << 10;  // of each block, by the system
  const auto held = static_cast<size_t>(device.shared_bytes);
  return held >= 2 * (kSharedBytes<kHead, 2> + kReserved) ||
         held < 2 * (kSharedBytes<kHead, 1> + kReserved);
}

template <int kHead, typename T>
void Backward(GpuDevice& device, const GpuAttention& a, const float* own_dot) {
  constexpr int kPart = kWarps * 16;
  const auto of_keys =
      ShapeFor(a, kPart * kKeyParts<kHead>, a.kv_heads, kSharedBytes<kHead, kKeyParts<kHead>>);
  Launch(device, of_keys, KeyGradientKernel<kHead, T>, a, Scale(a), own_dot);
  if (TakesTwoParts<kHead>(device)) {
    Launch(device, ShapeFor(a, 2 * kPart, a.heads, kSharedBytes<kHead, 2>),
           QueryGradientKernel<kHead, 2, T>, a, Scale(a), own_dot);
  } else {
    Launch(device, ShapeFor(a, kPart, a.heads, kSharedBytes<kHead, 1>),
           QueryGradientKernel<kHead, 1, T>, a, Scale(a), own_dot);
  }
}

}  // namespace

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
