#include "node/offer_program.h"

#include <algorithm>

#include "common/status.h"
#include "node/say.h"
#include "node/spill_probe.h"
#include "pipeline/plan/memory_model.h"

namespace skerry {
namespace {

int64_t BytesOfGib(double gib) {
  return static_cast<int64_t>(gib * (int64_t{1} << 30));
}

int64_t OnProcessor(std::span<const DeviceChoice> devices) {
  return std::count_if(devices.begin(), devices.end(),
                       [](const DeviceChoice& device) { return !device.gpu; });
}

// Of the host there is --memory for all devices that are on it; of a GPU for each, beside
// --host-memory, which may be more than their share of the host's.
void BoundMemory(const JoinOptions& options, std::span<const DeviceChoice> devices,
                 int64_t host_free, DeviceProfile& offered) {
  if (options.host_memory_gib > 0) {
    offered.host_bytes = std::min(host_free, BytesOfGib(options.host_memory_gib));
  } else if (offered.host_bytes < host_free) {
    Say(
        absl::StrFormat("offers %s of this computer's memory, as it has more GPUs than this node; "
                        "--host-memory GIB says otherwise",
                        BytesText(offered.host_bytes)));
  }
  if (options.memory_gib <= 0) return;
  const int64_t most = BytesOfGib(options.memory_gib) / std::max<int64_t>(1, OnProcessor(devices));
  offered.memory_bytes = std::min(offered.memory_bytes, most);
}

// What GPUs have no room for goes to the computer's memory, and to the disk what that has none for.
absl::Status OfferDisk(const JoinOptions& options, std::span<const DeviceChoice> devices,
                       DeviceProfile& offered) {
  if (options.spill.empty() && options.spill_gib == 0) return absl::OkStatus();
  if (options.spill.empty()) {
    return InvalidArgument(
        "--spill-space is of a directory: say which with --spill DIR [SK-spill]");
  }
  const int64_t on_processor = OnProcessor(devices);
  if (on_processor > 0 && on_processor < std::ssize(devices)) {
    Say("--spill is for nodes that train on the processor alone or on GPUs alone: nothing of this "
        "one's activations lies on a disk");
    return absl::OkStatus();
  }
  SKERRY_ASSIGN_OR_RETURN(const SpillProfile disk, ProbeSpill(options.spill, options.spill_gib));
  Say("offers the disk for activations: " + SpillText(disk));
  offered.spill_bytes = disk.bytes;
  offered.spill_bytes_per_s = disk.rates.bytes_per_s();
  return absl::OkStatus();
}

}  // namespace

absl::Status BoundOffer(const JoinOptions& options, std::span<const DeviceChoice> devices,
                        int64_t host_free, DeviceProfile& offered) {
  BoundMemory(options, devices, host_free, offered);
  return OfferDisk(options, devices, offered);
}

}  // namespace skerry
