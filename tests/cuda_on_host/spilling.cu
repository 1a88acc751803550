// More sums than 32 registers hold: compiled by a test that expects to be refused.
__global__ void __launch_bounds__(1024, 2) Spill(const float* x, float* y) {
  float sums[96] = {};
  for (int i = 0; i < 1000; ++i) {
#pragma unroll
    for (int j = 0; j < 96; ++j) sums[j] += x[i + j] * sums[(j + 1) % 96];
  }
#pragma unroll
  for (int j = 0; j < 96; ++j) y[threadIdx.x * 96 + j] = sums[j];
}
