#include "node/device_probe.h"

#include <unistd.h>

#include <fstream>
#include <string>

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

DeviceProfile ProbeDevice(Backend& backend) {
  DeviceProfile profile;
  const int64_t on_device = DeviceMemoryFree(backend);
  profile.name = on_device >= 0 ? backend.name() : ProcessorModel() + ", " + backend.name();
  profile.numeric_profile = backend.numeric_profile();
  profile.gflops = MeasureGflops(backend);
  profile.memory_bytes =
      on_device >= 0 ? on_device : int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return profile;
}

}  // namespace skerry
