#include "node/device_probe.h"

#include <unistd.h>

#include "kernels/measure.h"

namespace skerry {

DeviceProfile ProbeDevice(Backend& backend) {
  DeviceProfile profile;
  profile.name = backend.name();
  profile.numeric_profile = backend.numeric_profile();
  profile.gflops = MeasureGflops(backend);
  profile.memory_bytes = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return profile;
}

}  // namespace skerry
