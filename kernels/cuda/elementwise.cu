// What touches every value once: sums, fills, optimizers, SwiGLU, rotation. Bound by memory; each
// thread takes several values a grid apart, so that reads of a warp are one line each.
#include <cmath>

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

__global__ void AdamWKernel(GpuAdamW a) {
  for (int64_t i = FirstOfThread(); i < a.n; i += ThreadsOfGrid()) {
    const float g = a.gradient[i] * a.scale;
    const float m = a.beta1 * a.m[i] + a.one_minus_beta1 * g;
    const float v = a.beta2 * a.v[i] + a.one_minus_beta2 * g * g;
    a.m[i] = m;
    a.v[i] = v;
    a.parameters[i] = a.keep * a.parameters[i] - a.rate * m / (sqrtf(v) * a.root + a.epsilon);
  }
}

__global__ void SgdKernel(float rate, const float* gradient, float* parameters, int64_t n) {
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) {
    parameters[i] -= rate * gradient[i];
  }
}

// In float64: a sum of squares of a whole model loses digits in float32.
__global__ void SquaresKernel(const float* x, int64_t n, double* partial) {
  auto& sums = Shared<BlockSums<double>>();
  double sum = 0;
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  sum = BlockSum(sum, sums);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void SwigluForwardKernel(GpuSwiglu a) {
  const int64_t n = a.rows * a.ffn;
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) {
    const int64_t at = i / a.ffn * a.ffn + i;  // row · 2f + column
    const float gate = a.gate_up[at], up = a.gate_up[at + a.ffn];
    a.out[i] = gate / (1 + expf(-gate)) * up;
  }
}

__global__ void SwigluBackwardKernel(GpuSwiglu a) {
  const int64_t n = a.rows * a.ffn;
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) {
    const int64_t at = i / a.ffn * a.ffn + i;
    const float gate = a.gate_up[at], up = a.gate_up[at + a.ffn], d = a.d_out[i];
    const float sigmoid = 1 / (1 + expf(-gate));
    a.out[at] = d * up * sigmoid * (1 + gate * (1 - sigmoid));
    a.out[at + a.ffn] = d * gate * sigmoid;
  }
}

// One thread turns one pair (i, i + e/2) of a head.
__global__ void RopeKernel(GpuRope a) {
  const int64_t half = a.head_size / 2, pairs_a_row = a.columns / 2;
  const int64_t n = a.rows * pairs_a_row;
  for (int64_t i = FirstOfThread(); i < n; i += ThreadsOfGrid()) {
    const int64_t row = i / pairs_a_row, pair = i % pairs_a_row;
    const int64_t angle = row % a.context * half + pair % half;
    const float c = a.cosines[angle], s = a.inverse ? -a.sines[angle] : a.sines[angle];
    float* low = a.x + row * a.columns + pair / half * a.head_size + pair % half;
    const float x = low[0], y = low[half];
    low[0] = x * c - y * s;
    low[half] = y * c + x * s;
  }
}

}  // namespace

void Add(GpuDevice* device, const float* x, float* y, int64_t n) {
  if (n > 0) Launch(device->stream, ShapeFor(n), AddKernel, x, y, n);
}

void Fill(GpuDevice* device, float* y, float value, int64_t n) {
  if (n > 0) Launch(device->stream, ShapeFor(n), FillKernel, y, value, n);
}

double SumOfSquares(GpuDevice* device, const float* x, int64_t n) {
  constexpr unsigned kBlocks = 512;  // whatever n and the device: the order of the sum
  double partial[kBlocks] = {};
  double* sums = Scratch<double>(*device, kBlocks);
  if (n == 0 || sums == nullptr) return 0;
  const LaunchShape shape = {dim3{kBlocks}, kThreads, sizeof(BlockSums<double>)};
  Launch(device->stream, shape, SquaresKernel, x, n, sums);
  CopyOut(device->stream, sums, partial, sizeof(partial));
  double sum = 0;
  for (const double part : partial) sum += part;
  return sum;
}

void AdamW(GpuDevice* device, const GpuAdamW* args) {
  if (args->n > 0) Launch(device->stream, ShapeFor(args->n), AdamWKernel, *args);
}

void Sgd(GpuDevice* device, float rate, const float* gradient, float* parameters, int64_t n) {
  if (n > 0) Launch(device->stream, ShapeFor(n), SgdKernel, rate, gradient, parameters, n);
}

void SwigluForward(GpuDevice* device, const GpuSwiglu* args) {
  const int64_t n = args->rows * args->ffn;
  if (n > 0) Launch(device->stream, ShapeFor(n), SwigluForwardKernel, *args);
}

void SwigluBackward(GpuDevice* device, const GpuSwiglu* args) {
  const int64_t n = args->rows * args->ffn;
  if (n > 0) Launch(device->stream, ShapeFor(n), SwigluBackwardKernel, *args);
}

void Rope(GpuDevice* device, const GpuRope* args) {
  const int64_t n = args->rows * args->columns / 2;
  if (n > 0) Launch(device->stream, ShapeFor(n), RopeKernel, *args);
}

}  // namespace skerry::cuda
