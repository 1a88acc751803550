// What touches every value once: sums, fills, optimizers, SwiGLU, rotation. Bound by memory.
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

// blockIdx.y is the range.
__global__ void AdamWKernel(GpuUpdate a, const GpuRange* ranges) {
  const GpuRange range = ranges[blockIdx.y];
  for (int64_t i = FirstOfThread(); i < range.size; i += ThreadsOfGrid()) {
    const int64_t at = range.offset + i;
    const float g = a.gradient[at] * range.scale;
    const float m = a.beta1 * a.m[at] + a.one_minus_beta1 * g;
    const float v = a.beta2 * a.v[at] + a.one_minus_beta2 * g * g;
    const float p = range.keep * a.parameters[at] - a.rate * m / (sqrtf(v) * a.root + a.epsilon);
    a.m[at] = m;
    a.v[at] = v;
    a.parameters[at] = p;
    if (a.rounded != nullptr) a.rounded[at] = static_cast<uint16_t>(PackBf16(p, 0));
  }
}

__global__ void SgdKernel(GpuUpdate a, const GpuRange* ranges) {
  const GpuRange range = ranges[blockIdx.y];
  for (int64_t i = FirstOfThread(); i < range.size; i += ThreadsOfGrid()) {
    const int64_t at = range.offset + i;
    const float p = a.parameters[at] - a.rate * range.scale * a.gradient[at];
    a.parameters[at] = p;
    if (a.rounded != nullptr) a.rounded[at] = static_cast<uint16_t>(PackBf16(p, 0));
  }
}

// partial [ranges, blocks], in float64: a sum of squares of a whole model loses digits in float32.
__global__ void SquaresKernel(const float* x, const GpuRange* ranges, double* partial) {
  auto& sums = Shared<BlockSums<double>>();
  const GpuRange range = ranges[blockIdx.y];
  double sum = 0;
  for (int64_t i = FirstOfThread(); i < range.size; i += ThreadsOfGrid()) {
    const double value = x[range.offset + i];
    sum += value * value;
  }
  sum = BlockSum(sum, sums);
  if (threadIdx.x == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

struct SwigluOf {
  GpuSwiglu a;
  template <unsigned kWidth>
  __device__ void At(int64_t row, int64_t column) const {
    const Row gates = RowAt(a.gate_up, row);
    Pack<kWidth> value = Take<kWidth>(gates, column);
    const Pack<kWidth> up = Take<kWidth>(gates, column + a.ffn);
    for (unsigned j = 0; j < kWidth; ++j)
      value.of[j] = value.of[j] / (1 + expf(-value.of[j])) * up.of[j];
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
      const float sigmoid = 1 / (1 + expf(-gate));
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

// The order of a sum is one of n alone, whatever the device.
void SumsOfSquares(GpuDevice* device, const float* x, const GpuRange* host_ranges, int64_t ranges,
                   double* host_sums) {
  constexpr int64_t kBlocks = 64;
  if (ranges == 0) return;
  const int64_t values = ranges * kBlocks;
  const auto bytes = values * static_cast<int64_t>(sizeof(double));
  const GpuRange* on_device = CopyRanges(*device, host_ranges, ranges, bytes);
  if (on_device == nullptr) return;
  auto* partial = reinterpret_cast<double*>(const_cast<GpuRange*>(on_device + ranges));
  const LaunchShape shape = {dim3{kBlocks, static_cast<unsigned>(ranges)}, kThreads,
                             sizeof(BlockSums<double>)};
  Launch(*device, shape, SquaresKernel, x, on_device, partial);
  std::vector<double> host(static_cast<size_t>(values));
  CopyOut(*device, partial, host.data(), static_cast<size_t>(bytes));
  for (int64_t i = 0; i < values; ++i) {
    if (i % kBlocks == 0) host_sums[i / kBlocks] = 0;
    host_sums[i / kBlocks] += host[static_cast<size_t>(i)];
  }
}

void Update(GpuDevice* device, const GpuUpdate* args) {
  int64_t longest = 0;
  for (int64_t i = 0; i < args->ranges; ++i) {
    longest = args->host_ranges[i].size > longest ? args->host_ranges[i].size : longest;
  }
  if (longest == 0) return;
  const GpuRange* ranges = CopyRanges(*device, args->host_ranges, args->ranges, 0);
  if (ranges == nullptr) return;
  LaunchShape shape = ShapeFor(longest);
  shape.grid.y = static_cast<unsigned>(args->ranges);
  Launch(*device, shape, args->m == nullptr ? SgdKernel : AdamWKernel, *args, ranges);
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
