#include "kernels/cuda/attention.h"

#include <cmath>

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kWarps = kThreads / kLanes;
constexpr int kSlots = static_cast<int>(kPlainHeadMax / kLanes);  // values of a head for each lane

__device__ __forceinline__ int64_t WarpOfGrid() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
}

// A head's values of a tensor with the heads of queries; `row` counts (token, head).
__device__ __forceinline__ Row HeadAt(const GpuAttention& a, const GpuTensor& of, int64_t row) {
  return RowAt(of, row / a.heads, row % a.heads * a.head_size);
}

// A warp to a (token, head): Σ ∂out·out.
__global__ void OwnDotKernel(GpuAttention a, float* own_dot) {
  const int64_t row = WarpOfGrid();  // the same for the warp
  if (row >= a.sequences * a.context * a.heads) return;
  const unsigned lane = threadIdx.x % kLanes;
  const Row d_out = HeadAt(a, a.d_out, row), out = HeadAt(a, a.out, row);
  float sum = 0;
  for (int64_t x = lane; x < a.head_size; x += kLanes) sum += d_out[x] * out[x];
  sum = WarpSum(sum);
  if (lane == 0) own_dot[row] = sum;
}

// Σ over a head; lanes have different b, and often different a.
__device__ __forceinline__ float HeadDot(const Row& a, const Row& b, int64_t head_size) {
  float sum = 0;
  for (int64_t x = 0; x < head_size; ++x) sum += a[x] * b[x];
  return sum;
}

// Values of a head spread over a warp: lane l has l, l + 32, …
struct HeadSums {
  float of[kSlots] = {};

  __device__ __forceinline__ void Scale(float by) {
    for (float& value : of) value *= by;
  }
  __device__ __forceinline__ void Add(float weight, const Row& row, int64_t head_size) {
    int64_t x = threadIdx.x % kLanes;
    for (int slot = 0; slot < kSlots; ++slot, x += kLanes) {
      if (x < head_size) of[slot] += weight * row[x];
    }
  }
  __device__ __forceinline__ void Store(float factor, const Row& row, int64_t head_size) const {
    int64_t x = threadIdx.x % kLanes;
    for (int slot = 0; slot < kSlots; ++slot, x += kLanes) {
      if (x < head_size) row.Set(x, of[slot] * factor);
    }
  }
};

struct QueryPlace {
  int64_t token, first, row;  // first: of the sequence; row: of (token, head)
  int64_t kv_head;
};

__device__ __forceinline__ QueryPlace PlaceOf(const GpuAttention& a, int64_t row) {
  const int64_t token = row / a.heads, head = row % a.heads;
  return {token, token - token % a.context, row, head / (a.heads / a.kv_heads)};
}

__device__ __forceinline__ Row KeyRow(const GpuAttention& a, const GpuTensor& of, int64_t token,
                                      int64_t kv_head) {
  return RowAt(of, token, kv_head * a.head_size);
}

// A warp to a query: 32 keys at a time, one to a lane, with the online softmax.
__global__ void PlainForwardKernel(GpuAttention a, float scale) {
  if (WarpOfGrid() >= a.sequences * a.context * a.heads) return;
  const QueryPlace at = PlaceOf(a, WarpOfGrid());
  const Row q = HeadAt(a, a.q, at.row);
  const int64_t lane = threadIdx.x % kLanes;
  HeadSums out;
  float top = -INFINITY, sum = 0;
  for (int64_t first = at.first; first <= at.token; first += kLanes) {
    const bool seen = first + lane <= at.token;
    const float s = seen ? scale * HeadDot(q, KeyRow(a, a.k, first + lane, at.kv_head), a.head_size)
                         : -INFINITY;
    const float new_top = fmaxf(top, WarpMax(s));
    const float keep = expf(top - new_top), p = seen ? expf(s - new_top) : 0;
    top = new_top;
    sum = sum * keep + WarpSum(p);
    out.Scale(keep);
    for (unsigned j = 0; j < kLanes && first + j <= at.token; ++j) {
      out.Add(__shfl_sync(kWholeWarp, p, j), KeyRow(a, a.v, first + j, at.kv_head), a.head_size);
    }
  }
  if (lane == 0) a.log_sum_exp[at.row] = top + logf(sum);
  out.Store(1 / sum, HeadAt(a, a.out, at.row), a.head_size);
}

struct PairGradient {
  float p, d_score;
};

// Of a query and a key, unscaled.
__device__ __forceinline__ PairGradient GradientOf(const GpuAttention& a, float scale,
                                                   const float* own_dot, int64_t row, const Row& k,
                                                   const Row& v) {
  const Row q = HeadAt(a, a.q, row), d_out = HeadAt(a, a.d_out, row);
  const float p = expf(scale * HeadDot(q, k, a.head_size) - a.log_sum_exp[row]);
  return {p, p * (HeadDot(d_out, v, a.head_size) - own_dot[row])};
}

// A warp to a query.
__global__ void PlainQueryKernel(GpuAttention a, float scale, const float* own_dot) {
  if (WarpOfGrid() >= a.sequences * a.context * a.heads) return;
  const QueryPlace at = PlaceOf(a, WarpOfGrid());
  const int64_t lane = threadIdx.x % kLanes;
  HeadSums d_q;
  for (int64_t first = at.first; first <= at.token; first += kLanes) {
    float d_score = 0;
    if (first + lane <= at.token) {
      const int64_t token = first + lane;
      d_score = GradientOf(a, scale, own_dot, at.row, KeyRow(a, a.k, token, at.kv_head),
                           KeyRow(a, a.v, token, at.kv_head))
                    .d_score;
    }
    for (unsigned j = 0; j < kLanes && first + j <= at.token; ++j) {
      d_q.Add(__shfl_sync(kWholeWarp, d_score, j), KeyRow(a, a.k, first + j, at.kv_head),
              a.head_size);
    }
  }
  d_q.Store(scale, HeadAt(a, a.d_q, at.row), a.head_size);
}

// A warp to a key of a kv head: 32 queries at a time, one to a lane.
__global__ void PlainKeyKernel(GpuAttention a, float scale, const float* own_dot) {
  const int64_t row = WarpOfGrid();
  if (row >= a.sequences * a.context * a.kv_heads) return;
  const int64_t token = row / a.kv_heads, kv_head = row % a.kv_heads;
  const int64_t end = token - token % a.context + a.context;
  const int64_t group = a.heads / a.kv_heads, lane = threadIdx.x % kLanes;
  const Row k = KeyRow(a, a.k, token, kv_head), v = KeyRow(a, a.v, token, kv_head);
  HeadSums d_k, d_v;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t first = token; first < end; first += kLanes) {
      PairGradient own = {0, 0};
      if (first + lane < end) {
        own = GradientOf(a, scale, own_dot, (first + lane) * a.heads + head, k, v);
      }
      for (unsigned j = 0; j < kLanes && first + j < end; ++j) {
        const int64_t query = (first + j) * a.heads + head;
        d_k.Add(__shfl_sync(kWholeWarp, own.d_score, j), HeadAt(a, a.q, query), a.head_size);
        d_v.Add(__shfl_sync(kWholeWarp, own.p, j), HeadAt(a, a.d_out, query), a.head_size);
      }
    }
  }
  d_k.Store(scale, KeyRow(a, a.d_k, token, kv_head), a.head_size);
  d_v.Store(1, KeyRow(a, a.d_v, token, kv_head), a.head_size);
}

LaunchShape WarpPerRow(int64_t rows) {
  return {dim3{static_cast<unsigned>(CeilDivide(rows, kWarps))}, kThreads, 0};
}

float Scale(const GpuAttention& a) {
  return 1 / std::sqrt(static_cast<float>(a.head_size));
}

bool ForTensorCores(const GpuAttention& a) {
  if (a.head_size != 64 && a.head_size != 128) return false;
  for (const GpuTensor* x : {&a.q, &a.k, &a.v, &a.out, &a.d_out, &a.d_q, &a.d_k, &a.d_v}) {
    if (x->values != nullptr && !Aligned(*x)) return false;
  }
  return true;
}

bool Fits(GpuDevice& device, const GpuAttention& a) {
  if (a.head_size <= kPlainHeadMax) return true;
  NoteFailure(device, "attention: heads of more than 256 values are not for this device");
  return false;
}

}  // namespace

void PlainForward(GpuDevice& device, const GpuAttention& args) {
  Launch(device, WarpPerRow(args.sequences * args.context * args.heads), PlainForwardKernel, args,
         Scale(args));
}

void PlainBackward(GpuDevice& device, const GpuAttention& args, const float* own_dot) {
  const int64_t tokens = args.sequences * args.context;
  Launch(device, WarpPerRow(tokens * args.heads), PlainQueryKernel, args, Scale(args), own_dot);
  Launch(device, WarpPerRow(tokens * args.kv_heads), PlainKeyKernel, args, Scale(args), own_dot);
}

void AttentionForward(GpuDevice* device, const GpuAttention* args) {
  if (!Fits(*device, *args)) return;
  if (ForTensorCores(*args)) return TensorForward(*device, *args);
  PlainForward(*device, *args);
}

void AttentionBackward(GpuDevice* device, const GpuAttention* args) {
  if (!Fits(*device, *args)) return;
  const int64_t rows = args->sequences * args->context * args->heads;
  float* own_dot = Scratch<float>(*device, rows);
  if (own_dot == nullptr) return;
  Launch(*device, WarpPerRow(rows), OwnDotKernel, *args, own_dot);
  if (ForTensorCores(*args)) return TensorBackward(*device, *args, own_dot);
  PlainBackward(*device, *args, own_dot);
}

}  // namespace skerry::cuda
