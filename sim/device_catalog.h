// Common cards and processors, for the nodes of a scenario: peak and sustained rates per number
// format, memory, and where each figure is from.
//
// "Sustained" is what a node's own probe measures (DeviceProfile::gflops): large matrix products
// through the vendor's library, minutes long, at the card's own clocks. A whole training step
// reaches less of the peak (published: 60 % of an A100's, 42 % of an H100's at 1B parameters).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/message/device_profile.h"

namespace skerry {

enum class NumberFormat : uint8_t { kFp32, kBf16 };

struct DeviceRate {
  double peak_tflops = 0;       // dense, float32 accumulation; 0: the device lacks the format
  double sustained_tflops = 0;  // of matrix products
  bool operator==(const DeviceRate&) const = default;
};

struct DeviceSpec {
  std::string name;   // as in scenario files: "rtx-4090"
  std::string title;  // for people
  DeviceRate fp32;
  DeviceRate bf16;
  double memory_gib = 0;         // a processor's: what such a machine typically has
  double memory_gb_per_s = 0;    // peak
  double host_gib = 0;           // a card's: of its machine; 0: none is told apart
  double spill_gib = 0;          // of disk, for activations; 0: none
  double spill_gb_per_s = 0;     // written there and read back, both ways counted
  std::string peak_source;       // of peaks, memory, bandwidth
  std::string sustained_source;  // measured where, or derived from what
  bool operator==(const DeviceSpec&) const = default;

  const DeviceRate& rate(NumberFormat format) const {
    return format == NumberFormat::kFp32 ? fp32 : bf16;
  }
  // bf16 where the device has it, as training uses it; else fp32.
  NumberFormat natural_format() const {
    return bf16.sustained_tflops > 0 ? NumberFormat::kBf16 : NumberFormat::kFp32;
  }
};

// All of them, graphics cards first.
const std::vector<DeviceSpec>& DeviceCatalog();

std::optional<DeviceSpec> FindDevice(const std::string& name);

// What a simulated node says in its Hello. The device must have the format.
DeviceProfile ProfileOf(const DeviceSpec& device, NumberFormat format);

}  // namespace skerry
