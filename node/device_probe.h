// What this machine can do, measured and read, before it joins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device_split.h"
#include "kernels/backend.h"
#include "node/device_choice.h"
#include "wire/message/device_profile.h"

namespace skerry {

// About 0.4 s: a matrix product of a training shape in float32, and in bf16 where the device has
// it, and the memory that is free now. The errors of DeviceChoice::Create.
absl::StatusOr<DeviceProfile> ProbeDevice(const DeviceChoice& device);

// Of several that are to be one replica (model/stage_team.h), all measured at the same time.
struct TeamProfile {
  std::vector<DeviceProfile> devices;
  // How a microbatch is shared: of devices of one name the mean rate, so that equal ones share
  // equally whatever the moment's measurement says.
  std::vector<double> rates;
  // What is announced: rates are sums (bf16: if all have it), memory is what lets each device hold
  // the whole stage's weights, or its part, so the least of them, the host's cut by those who share
  // it. Of what the host has beside its GPUs it is their share (HostShare).
  DeviceProfile whole;
  int64_t host_free = 0;  // all that the host has beside them now, for who is told to offer more
};
// InvalidArgument: they are to share tensors, and compute other bits than each other.
absl::StatusOr<TeamProfile> ProbeDevices(std::span<const DeviceChoice> devices,
                                         DeviceSplit split = DeviceSplit::kSequences);
TeamProfile TeamOf(std::vector<DeviceProfile> devices, std::span<const DeviceChoice> choices,
                   DeviceSplit split = DeviceSplit::kSequences);

// What the device of a backend has free now: a GPU's own memory, or what this machine can give
// without swapping, within the limit of the control group.
int64_t MemoryFree(Backend& backend);
int64_t HostMemoryFree();

// What a node with so many of a computer's GPUs offers of the computer's memory: each of the others
// may be another node's, so its GPUs' part of all there is, and no more than is free. With all
// GPUs, or where either is not known (0), all that is free.
int64_t HostShare(int64_t free, int64_t all, int64_t gpus, int64_t gpus_of_computer);

// Bytes of "MemAvailable" in the text of /proc/meminfo, or of another key; 0: it does not say.
int64_t AvailableMemory(std::string_view meminfo, std::string_view key = "MemAvailable:");
// What is left of a control group's limit, the page cache counted as free; INT64_MAX: no limit.
int64_t LeftOfGroup(std::string_view max, std::string_view current, std::string_view stat);

// How GPUs of those devices reach each other, as measured now, a text for each pair: "cuda:0 to
// cuda:1 direct over NVLink, 231.4 GB/s". Those that do not open are left out.
std::vector<std::string> WaysBetween(std::span<const DeviceChoice> devices);

// "210 GFLOP/s in float32, 430 in bf16"
std::string RatesText(const DeviceProfile& profile);

}  // namespace skerry
