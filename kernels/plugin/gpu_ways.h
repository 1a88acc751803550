// How the GPUs of a machine reach each other.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/plugin/table.h"

namespace skerry {

// From one GPU's memory to another's, measured now: a fraction of a second. InvalidArgument: the
// backends are not of two GPUs.
absl::StatusOr<GpuWay> MeasureWay(Backend& from, Backend& to);

// "direct over NVLink, 231.4 GB/s", "direct over PCI Express, …", "through the host, …"
std::string WayText(const GpuWay& way);

}  // namespace skerry
