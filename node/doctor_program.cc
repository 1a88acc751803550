#include "node/doctor_program.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/status.h"
#include "node/device_choice.h"
#include "node/device_probe.h"
#include "node/join_program.h"
#include "node/own_addresses.h"

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

// Only somebody outside can tell whether this machine can be dialled: a coordinator did, at the
// last join.
void DescribeNetwork(const std::string& home) {
  std::string own;
  for (const std::string& address : OwnAddresses()) own += (own.empty() ? "" : ", ") + address;
  std::printf("network: addresses of this machine: %s\n", own.empty() ? "none" : own.c_str());
  std::ifstream file(std::filesystem::path(home) / kReachFile);
  if (!file) {
    std::printf(
        "network: whether others can dial it shows when it joins a run; behind a router that lets "
        "nothing in it takes part too\n");
    return;
  }
  std::printf("network: as the coordinator of the last run found:\n");
  for (std::string line; std::getline(file, line);) std::printf("     %s\n", line.c_str());
}

}  // namespace

int Doctor(int threads, const std::string& home) {
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
  DescribeNetwork(home);
  return 0;
}

}  // namespace skerry
