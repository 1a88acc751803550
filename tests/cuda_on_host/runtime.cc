// The bodies that kernels/cuda/runtime.cu and products.cu have on a GPU: a device of host memory
// whose products are plain loops.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "kernels/cuda/device.h"

namespace skerry {
namespace {

// TF32: ten bits of mantissa, nearest.
float RoundTf32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000) & ~0x1fffu);
}

// SKERRY_FIBER_GPU_FAILS="1 FILE": that one fails once there is such a file.
void FailAsTold(GpuDevice& device) {
  const char* told = std::getenv("SKERRY_FIBER_GPU_FAILS");
  char* file = nullptr;
  if (told == nullptr || std::strtol(told, &file, 10) != device.index) return;
  if (access(file + 1, F_OK) != 0) return;
  std::snprintf(device.failure.text, sizeof(device.failure.text), "it fell off the bus");
}

}  // namespace

namespace cuda {

void CopyIn(GpuDevice&, const void* host, void* to, size_t bytes) {
  if (bytes > 0) std::memcpy(to, host, bytes);
}

void CopyOut(GpuDevice&, const void* from, void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(host, from, bytes);
}

}  // namespace cuda

int32_t CountGpus(GpuText*) {
  const char* count = std::getenv("SKERRY_FIBER_GPUS");
  return count == nullptr ? 1 : std::atoi(count);
}

// SKERRY_FIBER_GPU_BROKEN=1: that one does not open. SKERRY_FIBER_GPU_SHARED: shared memory of its
// multiprocessors, KiB.
GpuDevice* OpenGpu(int32_t index, GpuText* why) {
  const char* broken = std::getenv("SKERRY_FIBER_GPU_BROKEN");
  if (broken != nullptr && std::atoi(broken) == index) {
    std::snprintf(why->text, sizeof(why->text), "it is broken");
    return nullptr;
  }
  auto* device = new GpuDevice;
  device->index = index;
  device->processors = 3;  // few, so that a block has several rows
  const char* shared = std::getenv("SKERRY_FIBER_GPU_SHARED");
  if (shared != nullptr) device->shared_bytes = std::atoi(shared) << 10;
  return device;
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

void MeasureGpuWay(GpuDevice* from, GpuDevice* to, GpuWay* out) {
  *out = {1, 0, from == to ? 0.0 : 2.5e10};
}

// Copies are made when somebody waits for them, and not before: who reads too early reads what is
// not there.
struct GpuLane {
  struct Copy {
    const void* from;
    void* to;
    size_t bytes;
  };
  void* memory = nullptr;  // on the border of a page, as CUDA's is
  std::deque<Copy> due;
  int64_t copies = 0;
};

GpuLane* OpenGpuLane(GpuDevice*, int64_t bytes) {
  auto* lane = new GpuLane;
  constexpr size_t kPage = 4096;
  lane->memory =
      std::aligned_alloc(kPage, (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage);
  return lane;
}

void CloseGpuLane(GpuDevice*, GpuLane* lane) {
  std::free(lane->memory);
  delete lane;
}

void* GpuLaneMemory(GpuDevice*, GpuLane* lane) {
  return lane->memory;
}

int64_t SendOnLane(GpuDevice*, GpuLane* lane, const void* host, void* to, int64_t bytes) {
  lane->due.push_back({host, to, static_cast<size_t>(bytes)});
  return ++lane->copies;
}

int64_t FetchOnLane(GpuDevice* device, GpuLane* lane, const void* from, void* host, int64_t bytes) {
  return SendOnLane(device, lane, from, host, bytes);
}

void WaitForLane(GpuDevice*, GpuLane* lane, int64_t copies) {
  while (!lane->due.empty() && lane->copies - static_cast<int64_t>(lane->due.size()) < copies) {
    const GpuLane::Copy& next = lane->due.front();
    std::memcpy(next.to, next.from, next.bytes);
    lane->due.pop_front();
  }
}

bool SynchronizeGpu(GpuDevice* device, GpuText* why) {
  FailAsTold(*device);
  *why = device->failure;
  return device->failure.text[0] == '\0';
}

// A device of this machine's memory has done what it was given when the call returns.
struct GpuMark {};

GpuMark* MarkGpu(GpuDevice*) {
  return new GpuMark;
}

void AwaitGpuMark(GpuDevice*, GpuMark* mark) {
  delete mark;
}

void MultiplyOnGpu(GpuDevice*, const GpuProduct* p) {
  const auto factor = [](const GpuTensor& x, int64_t row, int64_t column) {
    const float value = cuda::RowAt(x, row)[column];
    return x.bf16 != 0 ? value : RoundTf32(value);
  };
  for (int64_t i = 0; i < p->m; ++i) {
    for (int64_t j = 0; j < p->n; ++j) {
      float sum = 0;
      for (int64_t x = 0; x < p->k; ++x) {
        sum += (p->transpose_a != 0 ? factor(p->a, x, i) : factor(p->a, i, x)) *
               (p->transpose_b != 0 ? factor(p->b, j, x) : factor(p->b, x, j));
      }
      const cuda::Row out = cuda::RowAt(p->c, i);
      out.Set(j, p->beta == 0 ? sum : out[j] + sum);
    }
  }
}

}  // namespace skerry
