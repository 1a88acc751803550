// A Backend over the GPU plug-in's table (table.h): checks shapes, keeps what the table asks of its
// caller (rotation angles, sorted tokens), and owns the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/plugin/table.h"

namespace skerry {

// `table` outlives the backend. Unavailable, and why: there is no such device.
absl::StatusOr<std::unique_ptr<Backend>> CreateGpuBackend(const GpuTable& table, int device,
                                                          DType compute = DType::kFloat32);

// GPUs that are new enough, of the plug-in that programs use; 0 without one. Some may not work.
int UsableGpus();

// What this process does when a GPU of it fails, on the thread that saw it: what lies on it is
// lost, so it must end the process. Of several at once the first counts. By default it aborts. To
// be set before a GPU is used.
using GpuFailure = std::function<void(int index, const std::string& why)>;
void OnGpuFailure(GpuFailure end);

// The device a backend computes on, and its table; null pointers unless it is one of the above.
struct GpuHandle {
  const GpuTable* table = nullptr;
  GpuDevice* device = nullptr;
  int index = 0;  // of the GPU; one may be opened several times, each with an order of its own
};
GpuHandle GpuOf(Backend& backend);

// Bytes that are free on the backend's own memory now; −1 where it computes in host memory.
int64_t DeviceMemoryFree(Backend& backend);

}  // namespace skerry
