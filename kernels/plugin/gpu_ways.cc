#include "kernels/plugin/gpu_ways.h"

#include "common/status.h"
#include "kernels/plugin/gpu_backend.h"

namespace skerry {

absl::StatusOr<GpuWay> MeasureWay(Backend& from, Backend& to) {
  const GpuHandle a = GpuOf(from), b = GpuOf(to);
  if (a.device == nullptr || b.device == nullptr || a.table != b.table || a.device == b.device)
    return InvalidArgument("%s and %s: a way is between two GPUs", from.name(), to.name());
  GpuWay way = {};
  a.table->measure_way(a.device, b.device, &way);
  return way;
}

std::string WayText(const GpuWay& way) {
  std::string text = "through the host";
  if (way.direct != 0) text = way.atomic != 0 ? "direct over NVLink" : "direct over PCI Express";
  if (way.bytes_per_s <= 0) return text + ", but copies fail";
  return text + absl::StrFormat(", %.1f GB/s", way.bytes_per_s * 1e-9);
}

}  // namespace skerry
