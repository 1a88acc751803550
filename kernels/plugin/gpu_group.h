// NCCL as a Group, over the plug-in's second table (group_table.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/instant.h"
#include "kernels/backend.h"
#include "kernels/group/group.h"
#include "kernels/plugin/group_table.h"

namespace skerry {

// That of the plug-in which a backend's device is of. Unavailable, and why: it is no GPU's, the
// plug-in was built without NCCL's headers, or the library is not on this machine.
absl::StatusOr<const GpuGroupTable*> GroupTableOf(Backend& backend);

// The id of a new communicator: made once, then every member's. Unavailable: NCCL refuses.
absl::StatusOr<GpuGroupId> MakeGroupId(const GpuGroupTable& table);

// This member's end, which begins to meet the others; it is there when all have come. `device` and
// `table` outlive it. The first operation waits for that, for `patience` as all later ones:
// DeadlineExceeded then, Aborted when NCCL says that somebody failed. Abort, by another thread, is
// noticed by this member within a millisecond, and by the others as NCCL tells them or when their
// patience ends.
absl::StatusOr<std::unique_ptr<Group>> JoinGpuGroup(const GpuGroupTable& table, GpuDevice* device,
                                                    const GpuGroupId& id, int32_t rank,
                                                    int32_t size, Duration patience);

// One end for each of these GPUs of one process, which have met. Unavailable: not all are GPUs of
// one plug-in, or NCCL does not start between them.
absl::StatusOr<std::vector<std::unique_ptr<Group>>> MakeGpuGroup(std::span<Backend* const> backends,
                                                                 Duration patience);

}  // namespace skerry
