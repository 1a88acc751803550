#include "node/device_probe.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "common/status.h"
#include "kernels/measure.h"
#include "kernels/plugin/gpu_backend.h"

namespace skerry {
namespace {

// Names the hardware: readings of equal devices are pooled by the planner.
std::string ProcessorModel() {
  std::ifstream in("/proc/cpuinfo");
  const std::string key = "model name";
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind(key, 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

absl::StatusOr<DeviceProfile> ProbeDevice(const DeviceChoice& device) {
  DeviceProfile profile;
  {
    SKERRY_ASSIGN_OR_RETURN(const auto rounded, device.Create(DType::kBfloat16));
    if (rounded->compute_type() == DType::kBfloat16) profile.bf16_gflops = MeasureGflops(*rounded);
  }
  SKERRY_ASSIGN_OR_RETURN(const auto created, device.Create(DType::kFloat32));
  Backend& backend = *created;
  const int64_t on_device = DeviceMemoryFree(backend);
  profile.name = on_device >= 0 ? backend.name() : ProcessorModel() + ", " + backend.name();
  profile.numeric_profile = backend.numeric_profile();
  profile.gflops = MeasureGflops(backend);
  profile.memory_bytes =
      on_device >= 0 ? on_device : int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return profile;
}

std::string RatesText(const DeviceProfile& profile) {
  const std::string text = absl::StrFormat("%.0f GFLOP/s in float32", profile.gflops);
  if (profile.bf16_gflops == 0) return text + ", no bf16";
  return text + absl::StrFormat(", %.0f in bf16", profile.bf16_gflops);
}

}  // namespace skerry
