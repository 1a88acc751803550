// Whether other programs compute on this machine's NVIDIA GPUs, as the driver's library says
// (libnvidia-ml.so.1, loaded when it is first asked; nothing is linked).
#pragma once

#include "absl/status/statusor.h"

namespace skerry {

// Of the GPU that others use most: the share of its time, 0 … 1, that processes other than this one
// and its children took lately. 0 where there is none. Unavailable if the driver does not tell
// processes apart: no driver, or a container that does not see the processes of its host.
absl::StatusOr<double> OthersGpuShare();

}  // namespace skerry
