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

// The same for sums that are made while the devices compute (sum_thread.h): an end may be used by
// another thread than its backend, in whose order of operations it is not; so what it reads must
// have been made (Backend::Synchronize). Of a GPU that is a second stream.
struct GroupBeside {
  std::vector<std::unique_ptr<Backend>> streams;  // of each GPU; outlive the ends
  std::vector<std::unique_ptr<Group>> ends;
};
absl::StatusOr<GroupBeside> MakeGroupBeside(std::span<Backend* const> backends,
                                            Duration patience = kGroupPatience);

}  // namespace skerry
