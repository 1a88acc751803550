// One run of a soak from init to the end of its last process, disturbed or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/soak.h"
#include "sim/soak_fleet.h"

namespace skerry {

struct SoakLegOptions {
  int32_t number = 0;  // 0: nothing is disturbed
  uint64_t seed = 1;
  Duration limit;  // a leg that takes longer is stuck
  bool quiet = false;
  SoakFleetOptions fleet;
  // Instead of drawn ones: one after the other, from when the training has begun.
  std::vector<SoakEvent> script = {};
  double loss_goal = 0;  // what tells of a leg that ends with more is kept, too; 0: none
};

// Blocks. An error is one of the harness (nothing could be started) or Cancelled; what went wrong
// with the run stands in the leg's complaints.
absl::StatusOr<SoakLeg> RunSoakLeg(const SoakLegOptions& options, EmulatedNetwork& network,
                                   const volatile bool& interrupted);

}  // namespace skerry
