// Groups of the devices that one process drives.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/instant.h"
#include "kernels/backend.h"
#include "kernels/group/group.h"
#include "kernels/group/ring_group.h"

namespace skerry {

// One end for each backend, in their order, on values where the backend has them: NCCL where all
// are GPUs and it can be used (kernels/plugin/gpu_group.h), else the ring of this process, through
// host memory where a device's is its own. The backends outlive the groups; an end is used by the
// thread that owns its backend then.
absl::StatusOr<std::vector<std::unique_ptr<Group>>> MakeDeviceGroup(
    std::span<Backend* const> backends, Duration patience = kGroupPatience);

}  // namespace skerry
