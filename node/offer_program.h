// What a node offers a run of its machine: what was measured, within what its volunteer allows.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "node/device_choice.h"
#include "node/join_program.h"
#include "wire/message/device_profile.h"

namespace skerry {

// Bounds the memory in `offered` by --memory and --host-memory and adds the disk of --spill, which
// it measures; says what is not as it might be thought. `host_free`: of the computer, beside GPUs.
// The errors of ProbeSpill; InvalidArgument: --spill-space without a directory.
absl::Status BoundOffer(const JoinOptions& options, std::span<const DeviceChoice> devices,
                        int64_t host_free, DeviceProfile& offered);

}  // namespace skerry
