// What this machine can do, measured and read, before it joins.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "node/device_choice.h"
#include "wire/message/device_profile.h"

namespace skerry {

// About 0.4 s: a matrix product of a training shape in float32, and in bf16 where the device has
// it, and the memory that is free now. The errors of DeviceChoice::Create.
absl::StatusOr<DeviceProfile> ProbeDevice(const DeviceChoice& device);

// "210 GFLOP/s in float32, 430 in bf16"
std::string RatesText(const DeviceProfile& profile);

}  // namespace skerry
