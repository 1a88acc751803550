// What this machine can do, measured and read, before it joins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "node/device_choice.h"
#include "wire/message/device_profile.h"

namespace skerry {

// About 0.4 s: a matrix product of a training shape in float32, and in bf16 where the device has
// it, and the memory that is free now. The errors of DeviceChoice::Create.
absl::StatusOr<DeviceProfile> ProbeDevice(const DeviceChoice& device);

// What the device of a backend has free now: a GPU's own memory, or what this machine can give
// without swapping, within the limit of the control group.
int64_t MemoryFree(Backend& backend);

// Bytes of "MemAvailable" in the text of /proc/meminfo; 0: it does not say.
int64_t AvailableMemory(std::string_view meminfo);
// What is left of a control group's limit, the page cache counted as free; INT64_MAX: no limit.
int64_t LeftOfGroup(std::string_view max, std::string_view current, std::string_view stat);

// "210 GFLOP/s in float32, 430 in bf16"
std::string RatesText(const DeviceProfile& profile);

}  // namespace skerry
