// What touches every value once: sums, fills, optimizers, SwiGLU, rotation. Bound by memory.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/every_value.h"

namespace skerry::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kBlocksMax = 132 * 16;  // some waves of the largest device

LaunchShape ShapeFor(int64_t n) {
  const int64_t blocks = CeilDivide(n, kThreads);
  return {dim3{static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)}, kThreads, 0};
}

__device__ __forceinline__ int64_t FirstOfThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t ThreadsOfGrid() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

struct AddOf {
  GpuTensor x, y;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    const Row to = RowAt(y, row);
    const Pack<kWidth> more = Take<kWidth>(RowAt(x, row), column);
    Pack<kWidth> sum = Take<kWidth>(to, column);
    for (unsigned j = 0; j < kWidth; ++j) sum.of[j] += more.of[j];
    Put(to, column, sum);
  }
};

struct FillWith {
  GpuTensor y;
  float value;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    Pack<kWidth> same;
    for (float& of : same.of) of = value;
    Put(RowAt(y, row), column, same);
  }
};

struct CastOf {
  GpuTensor x, y;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    Put(RowAt(y, row), column, Take<kWidth>(RowAt(x, row), column));
  }
};

// Calls operation.At<kWidth>(range, place) for a range's values, in packs of kHalf where it begins
// and ends with one. blockIdx.y is the range.
template <typename Operation>
__global__ void EveryRangeKernel(Operation operation, const GpuRange* ranges) {
  const GpuRange range = ranges[blockIdx.y];
  if (operation.packed && range.offset % kHalf == 0 && range.size % kHalf == 0) {
    for (int64_t i = kHalf * FirstOfThread(); i < range.size; i += kHalf * ThreadsOfGrid())
      operation.template At<kHalf>(range, range.offset + i);
  } else {
    for (int64_t i = FirstOfThread(); i < range.size; i += ThreadsOfGrid())
      operation.template At<1>(range, range.offset + i);
  }
}

struct UpdateOf {
  GpuUpdate a;
  bool packed;

  __device__ Row Parameters() const { return {a.parameters, false}; }
  template <unsigned kWidth>
  __device__ void PutParameters(int64_t at, const Pack<kWidth>& p) const {
    Put(Parameters(), at, p);
    if (a.rounded != nullptr) Put({a.rounded, true}, at, p);
  }
};

struct AdamWOf : UpdateOf {
  template <unsigned kWidth>
  __device__ void At(const GpuRange& range, int64_t at) const {
    const Row first = {a.m, false}, second = {a.v, false};
    const auto gradient = Take<kWidth>({const_cast<float*>(a.gradient), false}, at);
    Pack<kWidth> m = Take<kWidth>(first, at), v = Take<kWidth>(second, at);
    Pack<kWidth> p = Take<kWidth>(Parameters(), at);
    for (unsigned j = 0; j < kWidth; ++j) {
      const float g = gradient.of[j] * range.scale;
      m.of[j] = a.beta1 * m.of[j] + a.one_minus_beta1 * g;
      v.of[j] = a.beta2 * v.of[j] + a.one_minus_beta2 * g * g;
      p.of[j] = range.keep * p.of[j] - a.rate * m.of[j] / (sqrtf(v.of[j]) * a.root + a.epsilon);
    }
    Put(first, at, m);
    Put(second, at, v);
    PutParameters(at, p);
  }
};

struct SgdOf : UpdateOf {
  template <unsigned kWidth>
  __device__ void At(const GpuRange& range, int64_t at) const {
    const auto gradient = Take<kWidth>({const_cast<float*>(a.gradient), false}, at);
    Pack<kWidth> p = Take<kWidth>(Parameters(), at);
    for (unsigned j = 0; j < kWidth; ++j) p.of[j] -= a.rate * range.scale * gradient.of[j];
    PutParameters(at, p);
  }
};

// partial [ranges, blocks], in float64: a sum of squares of a whole model loses digits in float32.
__global__ void SquaresKernel(const float* x, bool packed, const GpuRange* ranges,
                              double* partial) {
  auto& sums = Shared<BlockSums<double>>();
  const GpuRange range = ranges[blockIdx.y];
  const Row values = {const_cast<float*>(x + range.offset), false};
  double sum = 0;
  if (packed && range.offset % kHalf == 0 && range.size % kHalf == 0) {
    for (int64_t i = kHalf * FirstOfThread(); i < range.size; i += kHalf * ThreadsOfGrid()) {
      const Pack<kHalf> pack = Take<kHalf>(values, i);
      for (const float value : pack.of) sum += static_cast<double>(value) * value;
    }
  } else {
    for (int64_t i = FirstOfThread(); i < range.size; i += ThreadsOfGrid()) {
      const double value = values[i];
      sum += value * value;
    }
  }
  sum = BlockSum(sum, sums);
  if (threadIdx.x == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// A block to a range: Σ of its partial sums.
__global__ void SquaresOfRangeKernel(const double* partial, int64_t count, double* squares) {
  auto& sums = Shared<BlockSums<double>>();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += partial[blockIdx.x * count + i];
  sum = BlockSum(sum, sums);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// A division and an exponential as the C library has them are some thirty instructions, with which
// a large device's memory would wait for its multiprocessors.
__device__ __forceinline__ float Sigmoid(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return Reciprocal(1 + ExpTwo(-kLog2E * x));
}

struct SwigluOf {
  GpuSwiglu a;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    const Row gates = RowAt(a.gate_up, row);
    Pack<kWidth> value = Take<kWidth>(gates, column);
    const Pack<kWidth> up = Take<kWidth>(gates, column + a.ffn);
    for (unsigned j = 0; j < kWidth; ++j)
      value.of[j] = value.of[j] * Sigmoid(value.of[j]) * up.of[j];
    Put(RowAt(a.out, row), column, value);
  }
};

struct SwigluGradientOf {
  GpuSwiglu a;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    const Row gates = RowAt(a.gate_up, row), out = RowAt(a.out, row);
    const Pack<kWidth> gates_of = Take<kWidth>(gates, column);
    const Pack<kWidth> ups = Take<kWidth>(gates, column + a.ffn);
    const Pack<kWidth> d_outs = Take<kWidth>(RowAt(a.d_out, row), column);
    Pack<kWidth> d_gates, d_ups;
    for (unsigned j = 0; j < kWidth; ++j) {
      const float gate = gates_of.of[j], up = ups.of[j], d = d_outs.of[j];
      const float sigmoid = Sigmoid(gate);
      d_gates.of[j] = d * up * sigmoid * (1 + gate * (1 - sigmoid));
      d_ups.of[j] = d * gate * sigmoid;
    }
    Put(out, column, d_gates);
    Put(out, column + a.ffn, d_ups);
  }
};

// Columns are pairs (i, i + e/2) of the heads; a pack of them is of one head.
struct RotationOf {
  GpuRope a;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t pair) const {
    const auto half = static_cast<unsigned>(a.head_size / 2);
    const unsigned head = static_cast<unsigned>(pair) / half;
    const int64_t at = static_cast<unsigned>(pair) % half;
    const int64_t place = static_cast<unsigned>(row) % static_cast<unsigned>(a.context);
    const Row angles_c = {const_cast<float*>(a.cosines + place * half), false};
    const Row angles_s = {const_cast<float*>(a.sines + place * half), false};
    const Pack<kWidth> c = Take<kWidth>(angles_c, at), s = Take<kWidth>(angles_s, at);
    const Row values = RowAt(a.x, row, head * a.head_size);
    Pack<kWidth> x = Take<kWidth>(values, at), y = Take<kWidth>(values, at + half);
    for (unsigned j = 0; j < kWidth; ++j) {
      const float sine = a.inverse != 0 ? -s.of[j] : s.of[j], before = x.of[j];
      x.of[j] = before * c.of[j] - y.of[j] * sine;
      y.of[j] = y.of[j] * c.of[j] + before * sine;
    }
    Put(values, at, x);
    Put(values, at + half, y);
  }
};

struct BiasOf {
  const float* bias;
  GpuTensor y;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    const Row to = RowAt(y, row);
    const Pack<kWidth> more = Take<kWidth>({const_cast<float*>(bias), false}, column);
    Pack<kWidth> sum = Take<kWidth>(to, column);
    for (unsigned j = 0; j < kWidth; ++j) sum.of[j] += more.of[j];
    Put(to, column, sum);
  }
};

// Ranges on the device, and after them room for `bytes` more; null: no memory.
const GpuRange* CopyRanges(GpuDevice& device, const GpuRange* host, int64_t ranges, int64_t bytes) {
  const int64_t own = ranges * static_cast<int64_t>(sizeof(GpuRange));
  char* scratch = Scratch<char>(device, own + bytes);
  if (scratch != nullptr) CopyIn(device, host, scratch, static_cast<size_t>(own));
  return reinterpret_cast<const GpuRange*>(scratch);
}

}  // namespace

void Add(GpuDevice* device, const float* x, float* y, int64_t n) {
  const AddOf sum = {Line(x, n), Line(y, n)};
  ForEveryValue<kHalf>(*device, sum, 1, n, InPacks<kHalf>(n, {sum.x, sum.y}));
}

void Fill(GpuDevice* device, float* y, float value, int64_t n) {
  const FillWith same = {Line(y, n), value};
  ForEveryValue<kHalf>(*device, same, 1, n, InPacks<kHalf>(n, {same.y}));
}

void Cast(GpuDevice* device, const GpuTensor* x, const GpuTensor* y) {
  ForEveryValue(*device, CastOf{*x, *y}, x->rows, x->columns, InPacks(x->columns, {*x, *y}));
}

// The order of a sum is one of n alone, whatever the device. There may be one range of all values:
// blocks are enough for a large device.
void SumsOfSquares(GpuDevice* device, const float* x, const GpuRange* host_ranges, int64_t ranges,
                   double* host_sums) {
  constexpr int64_t kBlocks = 1024, kDouble = sizeof(double);
  if (ranges == 0) return;
  const int64_t partials = ranges * kBlocks;
  const GpuRange* on_device =
      CopyRanges(*device, host_ranges, ranges, (partials + ranges) * kDouble);
  if (on_device == nullptr) return;
  auto* partial = reinterpret_cast<double*>(const_cast<GpuRange*>(on_device + ranges));
  double* squares = partial + partials;
  const auto rows = static_cast<unsigned>(ranges);
  constexpr size_t kShared = sizeof(BlockSums<double>);
  Launch(*device, {dim3{kBlocks, rows}, kThreads, kShared}, SquaresKernel, x, Aligned(Line(x, 4)),
         on_device, partial);
  Launch(*device, {dim3{rows}, kThreads, kShared}, SquaresOfRangeKernel, partial, kBlocks, squares);
  CopyOut(*device, squares, host_sums, static_cast<size_t>(ranges * kDouble));
}

// Ranges of like size go together, the longest first: blocks for a matrix would have nothing to do
// in a norm, and starting them takes time too.
void Update(GpuDevice* device, const GpuUpdate* args) {
  constexpr int64_t kAlike = 16;
  std::vector<GpuRange> host(args->host_ranges, args->host_ranges + args->ranges);
  std::sort(host.begin(), host.end(),
            [](const GpuRange& a, const GpuRange& b) { return a.size > b.size; });
  while (!host.empty() && host.back().size == 0) host.pop_back();
  if (host.empty()) return;
  const auto count = static_cast<int64_t>(host.size());
  const GpuRange* ranges = CopyRanges(*device, host.data(), count, 0);
  if (ranges == nullptr) return;
  bool packed = reinterpret_cast<uintptr_t>(args->rounded) % sizeof(Pairs<kHalf>) == 0;
  for (const float* x : {args->gradient, static_cast<const float*>(args->parameters),
                         static_cast<const float*>(args->m), static_cast<const float*>(args->v)})
    packed = packed && Aligned(Line(x, kHalf));
  for (int64_t first = 0, next = 0; first < count; first = next) {
    const int64_t longest = host[static_cast<size_t>(first)].size;
    while (next < count && host[static_cast<size_t>(next)].size > longest / kAlike) ++next;
    LaunchShape shape = ShapeFor(packed ? CeilDivide(longest, kHalf) : longest);
    shape.grid.y = static_cast<unsigned>(next - first);
    if (args->m == nullptr) {
      Launch(*device, shape, EveryRangeKernel<SgdOf>, SgdOf{*args, packed}, ranges + first);
    } else {
      Launch(*device, shape, EveryRangeKernel<AdamWOf>, AdamWOf{*args, packed}, ranges + first);
    }
  }
}

void SwigluForward(GpuDevice* device, const GpuSwiglu* args) {
  ForEveryValue(*device, SwigluOf{*args}, args->rows, args->ffn,
                InPacks(args->ffn, {args->gate_up, args->out}));
}

void SwigluBackward(GpuDevice* device, const GpuSwiglu* args) {
  ForEveryValue(*device, SwigluGradientOf{*args}, args->rows, args->ffn,
                InPacks(args->ffn, {args->gate_up, args->d_out, args->out}));
}

void AddBias(GpuDevice* device, const float* bias, const GpuTensor* y) {
  ForEveryValue(*device, BiasOf{bias, *y}, y->rows, y->columns,
                InPacks(y->columns, {Line(bias, y->columns), *y}));
}

void Rope(GpuDevice* device, const GpuRope* args) {
  const int64_t half = args->head_size / 2;
  const bool wide = InPacks(half, {args->x, Line(args->cosines, half), Line(args->sines, half)});
  ForEveryValue(*device, RotationOf{*args}, args->x.rows, args->x.columns / 2, wide);
}

}  // namespace skerry::cuda
