// What touches every value once: sums, fills, optimizers, SwiGLU, rotation. Bound by memory; each
// thread takes several values a grid apart, so that reads of a warp are one line each.
#include <cmath>
#include <vector>

#include "kernels/cuda/device.h"

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

__global__ void AddKernel(const float* x, float* y, int64_t n) {
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) y[i] += x[i];
}

__global__ void FillKernel(float* y, float value, int64_t n) {
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) y[i] = value;
}

__global__ void CastKernel(GpuTensor x, GpuTensor y) {
  for (int64_t i = FirstOfThread(); i < x.rows * x.columns; i += ThreadsOfGrid()) {
    const int64_t row = i / x.columns, column = i % x.columns;
    RowAt(y, row).Set(column, RowAt(x, row)[column]);
  }
}

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

__global__ void SwigluForwardKernel(GpuSwiglu a) {
  for (int64_t i = FirstOfThread(); i < a.rows * a.ffn; i += ThreadsOfGrid()) {
    const int64_t row = i / a.ffn, column = i % a.ffn;
    const Row gates = RowAt(a.gate_up, row);
    const float gate = gates[column], up = gates[column + a.ffn];
    RowAt(a.out, row).Set(column, gate / (1 + expf(-gate)) * up);
  }
}

__global__ void SwigluBackwardKernel(GpuSwiglu a) {
  for (int64_t i = FirstOfThread(); i < a.rows * a.ffn; i += ThreadsOfGrid()) {
    const int64_t row = i / a.ffn, column = i % a.ffn;
    const Row gates = RowAt(a.gate_up, row), out = RowAt(a.out, row);
    const float gate = gates[column], up = gates[column + a.ffn], d = RowAt(a.d_out, row)[column];
    const float sigmoid = 1 / (1 + expf(-gate));
    out.Set(column, d * up * sigmoid * (1 + gate * (1 - sigmoid)));
    out.Set(column + a.ffn, d * gate * sigmoid);
  }
}

// One thread turns one pair (i, i + e/2) of a head.
__global__ void RopeKernel(GpuRope a) {
  const int64_t half = a.head_size / 2, pairs_a_row = a.x.columns / 2;
  for (int64_t i = FirstOfThread(); i < a.x.rows * pairs_a_row; i += ThreadsOfGrid()) {
    const int64_t row = i / pairs_a_row, pair = i % pairs_a_row;
    const int64_t angle = row % a.context * half + pair % half;
    const float c = a.cosines[angle], s = a.inverse != 0 ? -a.sines[angle] : a.sines[angle];
    const Row head = RowAt(a.x, row, pair / half * a.head_size);
    const int64_t at = pair % half;
    const float x = head[at], y = head[at + half];
    head.Set(at, x * c - y * s);
    head.Set(at + half, y * c + x * s);
  }
}

__global__ void BiasKernel(const float* bias, GpuTensor y) {
  for (int64_t i = FirstOfThread(); i < y.rows * y.columns; i += ThreadsOfGrid()) {
    const Row row = RowAt(y, i / y.columns);
    const int64_t column = i % y.columns;
    row.Set(column, row[column] + bias[column]);
  }
}

// One thread sums one column, in the order of the rows.
__global__ void SumRowsKernel(GpuTensor x, float* sums) {
  for (int64_t i = FirstOfThread(); i < x.columns; i += ThreadsOfGrid()) {
    float sum = 0;
    for (int64_t row = 0; row < x.rows; ++row) sum += RowAt(x, row)[i];
    sums[i] = sum;
  }
}

// Ranges on the device, and after them room for `bytes` more; null: no memory.
const GpuRange* CopyRanges(GpuDevice& device, const GpuRange* host, int64_t ranges, int64_t bytes) {
  const int64_t own = ranges * static_cast<int64_t>(sizeof(GpuRange));
  char* scratch = Scratch<char>(device, own + bytes);
  if (scratch != nullptr) CopyIn(device.stream, host, scratch, static_cast<size_t>(own));
  return reinterpret_cast<const GpuRange*>(scratch);
}

}  // namespace

void Add(GpuDevice* device, const float* x, float* y, int64_t n) {
  if (n > 0) Launch(device->stream, ShapeFor(n), AddKernel, x, y, n);
}

void Fill(GpuDevice* device, float* y, float value, int64_t n) {
  if (n > 0) Launch(device->stream, ShapeFor(n), FillKernel, y, value, n);
}

void Cast(GpuDevice* device, const GpuTensor* x, const GpuTensor* y) {
  const int64_t n = x->rows * x->columns;
  if (n > 0) Launch(device->stream, ShapeFor(n), CastKernel, *x, *y);
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
  Launch(device->stream, shape, SquaresKernel, x, on_device, partial);
  std::vector<double> host(static_cast<size_t>(values));
  CopyOut(device->stream, partial, host.data(), static_cast<size_t>(bytes));
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
  Launch(device->stream, shape, args->m == nullptr ? SgdKernel : AdamWKernel, *args, ranges);
}

void SwigluForward(GpuDevice* device, const GpuSwiglu* args) {
  const int64_t n = args->rows * args->ffn;
  if (n > 0) Launch(device->stream, ShapeFor(n), SwigluForwardKernel, *args);
}

void SwigluBackward(GpuDevice* device, const GpuSwiglu* args) {
  const int64_t n = args->rows * args->ffn;
  if (n > 0) Launch(device->stream, ShapeFor(n), SwigluBackwardKernel, *args);
}

void AddBias(GpuDevice* device, const float* bias, const GpuTensor* y) {
  const int64_t n = y->rows * y->columns;
  if (n > 0) Launch(device->stream, ShapeFor(n), BiasKernel, bias, *y);
}

void SumRows(GpuDevice* device, const GpuTensor* x, float* sums) {
  if (x->columns > 0) Launch(device->stream, ShapeFor(x->columns), SumRowsKernel, *x, sums);
}

void Rope(GpuDevice* device, const GpuRope* args) {
  const int64_t n = args->x.rows * args->x.columns / 2;
  if (n > 0) Launch(device->stream, ShapeFor(n), RopeKernel, *args);
}

}  // namespace skerry::cuda
