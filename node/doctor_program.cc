#include "node/doctor_program.h"

#include <cstdio>

#include "common/status.h"
#include "node/device_choice.h"
#include "node/device_probe.h"

namespace skerry {
namespace {

void Describe(const char* kind, Backend& backend) {
  const DeviceProfile profile = ProbeDevice(backend);
  std::printf("%s: %s, %.0f GFLOP/s in float32 products, %.1f GiB of memory free\n", kind,
              profile.name.c_str(), profile.gflops,
              static_cast<double>(profile.memory_bytes) / (1 << 30));
  std::printf("     results are compared with devices of the same profile: %s\n",
              profile.numeric_profile.c_str());
}

}  // namespace

int Doctor(int threads) {
  int gpus = 0;
  for (absl::Status none; none.ok();) {
    auto gpu = CreateCudaBackend(gpus);
    none = gpu.status();
    if (gpu.ok()) {
      Describe("GPU", **gpu);
      ++gpus;
    }
  }
  const auto cpu = CreateCpuBackend(threads);
  Describe("CPU", *cpu);
  const auto choice = ChooseDevice(DeviceWish::kAuto, threads);
  if (!choice.ok()) return 1;
  std::printf("training uses the %s: %s\n", choice->gpu ? "GPU" : "CPU", choice->why.c_str());
  if (!choice->gpu) std::printf("     (the CPU needs nothing more; --device says otherwise)\n");
  return 0;
}

}  // namespace skerry
