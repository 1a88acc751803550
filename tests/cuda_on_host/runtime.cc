// The bodies that kernels/cuda/runtime.cu and products.cu have on a GPU: a device of host memory
// whose products are plain loops.
#include <cstdio>

#include "kernels/cuda/device.h"

namespace skerry {
namespace {

// TF32: ten bits of mantissa, nearest.
float RoundTf32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000) & ~0x1fffu);
}

}  // namespace

int32_t CountGpus(GpuText*) {
  return 1;
}

GpuDevice* OpenGpu(int32_t, GpuText*) {
  return new GpuDevice;
}

void CloseGpu(GpuDevice* device) {
  cuda::GiveMemory(device->scratch);
  delete device;
}

void EnterGpu(GpuDevice*) {}

void NameGpu(GpuDevice*, GpuText* out) {
  std::snprintf(out->text, sizeof(out->text), "CUDA kernels on fibers of the CPU");
}

void ProfileGpu(GpuDevice* device, GpuText* out) {
  NameGpu(device, out);
}

int64_t FreeGpuMemory(GpuDevice*) {
  return int64_t{1} << 30;
}

bool SynchronizeGpu(GpuDevice* device, GpuText* why) {
  *why = device->failure;
  return device->failure.text[0] == '\0';
}

void MultiplyOnGpu(GpuDevice*, const GpuProduct* p) {
  const int64_t a_row = p->transpose_a ? 1 : p->k, a_depth = p->transpose_a ? p->m : 1;
  const int64_t b_column = p->transpose_b ? p->k : 1, b_depth = p->transpose_b ? 1 : p->n;
  for (int64_t i = 0; i < p->m; ++i) {
    for (int64_t j = 0; j < p->n; ++j) {
      float sum = 0;
      for (int64_t x = 0; x < p->k; ++x) {
        sum +=
            RoundTf32(p->a[i * a_row + x * a_depth]) * RoundTf32(p->b[j * b_column + x * b_depth]);
      }
      float& out = p->c[i * p->n + j];
      out = p->beta == 0 ? sum : out + sum;
    }
  }
}

}  // namespace skerry
