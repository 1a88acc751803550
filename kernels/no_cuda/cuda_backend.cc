// Linked in place of kernels/cuda when the build has no CUDA.
#include "common/status.h"
#include "kernels/backend.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device) {
  return Unavailable(
      "CUDA device %d: this program was built without CUDA; train on the CPU, or rebuild where the "
      "CUDA toolkit is installed",
      device);
}

}  // namespace skerry
