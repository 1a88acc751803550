// What a volunteer's disk is worth for activations, measured before the node joins.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/stash_store.h"

namespace skerry {

struct SpillProfile {
  std::string directory;
  int64_t bytes = 0;  // that it offers
  StashRates rates;
};

// Offers `gib`; 0: half of what is free there. The errors of MeasureStashFile; ResourceExhausted
// also: less is free than `gib`.
absl::StatusOr<SpillProfile> ProbeSpill(const std::string& directory, double gib);

// "100.0 GiB in /mnt/ssd, writes 1.20 GB/s, reads 2.30 GB/s"
std::string SpillText(const SpillProfile& profile);

}  // namespace skerry
