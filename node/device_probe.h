// What this machine can do, measured and read, before it joins.
#pragma once

#include "kernels/backend.h"
#include "wire/message/device_profile.h"

namespace skerry {

// About 0.2 s: a matrix product of a training shape, and the memory that is free now.
DeviceProfile ProbeDevice(Backend& backend);

}  // namespace skerry
