// What nodes offer, and what of it a stage takes, as a profile says it and for people.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "pipeline/plan/node_memory.h"

namespace skerry {
namespace {

constexpr int32_t kDevicesMax = 64;
constexpr const char* kTimes = " × ";   // devices that share sequences
constexpr const char* kShares = " ÷ ";  // tensors
constexpr const char* kEither = " ×÷ ";

// The number of devices that a profile says before the sign; 0: there is none.
int32_t NumberBefore(const std::string& sign, const std::string& profile) {
  const size_t at = profile.find(sign);
  if (at == 0 || at > 2 || at == std::string::npos) return 0;
  const std::string number = profile.substr(0, at);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(number.begin(), number.end(), is_digit) ? std::atoi(number.c_str()) : 0;
}

double FlopsPerByte(double gflops, double bytes_per_s) {
  const double flops_per_byte = gflops * 1e9 / bytes_per_s;
  if (!(flops_per_byte > 0) || !std::isfinite(flops_per_byte)) return 0;
  const double step = std::log(kRateStep);
  return std::exp(step * std::round(std::log(flops_per_byte) / step));
}

}  // namespace

std::string TeamNumericProfile(size_t devices, const std::string& each, DeviceSplit split) {
  const char* sign = kTimes;
  if (split == DeviceSplit::kTensors) sign = kShares;
  if (split == DeviceSplit::kEither) sign = kEither;
  return absl::StrFormat("%d%s%s", devices, sign, each);
}

int32_t AnnouncedDevices(const DeviceProfile& device) {
  int32_t number = 1;
  for (const char* sign : {kTimes, kShares, kEither})
    number = std::max(number, NumberBefore(sign, device.numeric_profile));
  return std::min(number, kDevicesMax);
}

DeviceSplit AnnouncedSplit(const DeviceProfile& device) {
  if (NumberBefore(kShares, device.numeric_profile) > 0) return DeviceSplit::kTensors;
  if (NumberBefore(kEither, device.numeric_profile) > 0) return DeviceSplit::kEither;
  return DeviceSplit::kSequences;
}

MemoryOffer OfferOf(const DeviceProfile& device) {
  MemoryOffer offer = {device.memory_bytes, device.host_bytes, AnnouncedDevices(device),
                       device.spill_bytes};
  offer.split = AnnouncedSplit(device);
  const bool has_disk = offer.spill_bytes > 0 && device.spill_bytes_per_s > 0;
  if (!offer.HasHost() && !has_disk) return offer;
  const double rate = offer.HasHost() ? kBusBytesPerS : device.spill_bytes_per_s;
  offer.flops_per_byte = FlopsPerByte(device.gflops, rate);
  offer.bf16_flops_per_byte = FlopsPerByte(device.bf16_gflops, rate);
  if (!offer.HasHost() || !has_disk) return offer;
  const double both = std::min(kBusBytesPerS, device.spill_bytes_per_s);
  offer.disk_flops_per_byte = FlopsPerByte(device.gflops, both);
  offer.bf16_disk_flops_per_byte = FlopsPerByte(device.bf16_gflops, both);
  return offer;
}

int64_t MemoryOffer::total() const {
  constexpr int64_t kMost = INT64_MAX / (2 * kDevicesMax);  // whatever somebody announces
  return devices * std::min(device_bytes, kMost) + std::min(host_bytes, kMost);
}

std::vector<MemoryOffer> LeastOffers(std::span<const MemoryOffer> offers) {
  std::vector<MemoryOffer> least;
  for (const MemoryOffer& offer : offers) {
    const auto kind = std::find_if(least.begin(), least.end(), [&](const MemoryOffer& other) {
      return other.IsOfKindOf(offer) && (other.spill_bytes > 0) == (offer.spill_bytes > 0);
    });
    if (kind == least.end()) {
      least.push_back(offer);
      continue;
    }
    kind->host_bytes = std::min(kind->host_bytes, offer.host_bytes);
    kind->spill_bytes = std::min(kind->spill_bytes, offer.spill_bytes);
    // The slower to move; one that is not known parks nothing.
    const auto slower = [](double a, double b) { return a == 0 || b == 0 ? 0 : std::max(a, b); };
    kind->bf16_flops_per_byte =
        slower(kind->bf16_flops_per_byte > 0 ? kind->bf16_flops_per_byte : kind->flops_per_byte,
               offer.bf16_flops_per_byte > 0 ? offer.bf16_flops_per_byte : offer.flops_per_byte);
    kind->flops_per_byte = slower(kind->flops_per_byte, offer.flops_per_byte);
    kind->bf16_disk_flops_per_byte =
        slower(kind->bf16_disk_flops_per_byte, offer.bf16_disk_flops_per_byte);
    kind->disk_flops_per_byte = slower(kind->disk_flops_per_byte, offer.disk_flops_per_byte);
    const bool is_less = kind->device_bytes == 0 || offer.device_bytes < kind->device_bytes;
    if (offer.device_bytes > 0 && is_less) kind->device_bytes = offer.device_bytes;
  }
  return least;
}

MemoryOffer OfferAfterShortage(const MemoryOffer& offered, const NodeMemory& had, bool of_disk) {
  const auto less = [](int64_t offered_bytes, int64_t needed_bytes) {
    const int64_t at_most =
        offered_bytes == 0 ? needed_bytes : std::min(offered_bytes, needed_bytes);
    return at_most / 4 * 3;
  };
  MemoryOffer next = offered;
  if (of_disk) {
    next.spill_bytes = std::min(offered.spill_bytes, had.spill) / 4 * 3;
    return next;
  }
  next.device_bytes = less(offered.device_bytes, had.each.needed());
  if (offered.HasHost()) next.host_bytes = less(offered.host_bytes, had.host.needed());
  return next;
}

std::string OfferText(const MemoryOffer& offer) {
  std::string text = BytesText(offer.device_bytes);
  const bool has_disk = offer.spill_bytes > 0;
  if (offer.HasHost())
    text += (has_disk ? ", " : " and ") + BytesText(offer.host_bytes) + " of the host";
  return has_disk ? text + " and " + BytesText(offer.spill_bytes) + " of disk" : text;
}

std::string NeedText(const NodeMemory& memory, const MemoryOffer& offer) {
  std::string text = BytesText(memory.each.needed());
  if (offer.device_bytes > 0) text += " of " + BytesText(offer.device_bytes);
  if (memory.devices > 1) text += absl::StrFormat(" on each of %d devices", memory.devices);
  if (memory.spill > 0) {
    text += absl::StrFormat(", %s of %s on disk", BytesText(memory.spill),
                            BytesText(offer.spill_bytes));
  }
  if (!offer.HasHost()) return text;
  return text + absl::StrFormat(", %s of %s on the host", BytesText(memory.host.needed()),
                                BytesText(offer.host_bytes));
}

}  // namespace skerry
