// What a node says (and has measured) about the device it trains on.
#pragma once

#include <cstdint>
#include <string>

namespace skerry {

struct DeviceProfile {
  std::string name;  // "AMD EPYC (AVX2), 1 thread"
  std::string
      numeric_profile;       // library, instruction set, threads: equal profiles compute equal bits
  double gflops = 0;         // measured, float32 matrix product of the training shapes
  int64_t memory_bytes = 0;  // what the node may use
  double bf16_gflops = 0;    // the same in bf16; 0: it has no instructions for it
  std::string network = {};  // kind of its fastest card (node/network_cards.h); "": not known
  int64_t host_bytes = 0;    // besides, where memory_bytes is of devices with their own; 0: none
  // Disk that its volunteer lets it write activations to, 0: none; and how fast what is written
  // there and read back moves, both ways counted.
  int64_t spill_bytes = 0;
  double spill_bytes_per_s = 0;
  bool spreads = false;  // its program knows plans that do (PlannedSettings)
  bool operator==(const DeviceProfile&) const = default;
};

}  // namespace skerry
