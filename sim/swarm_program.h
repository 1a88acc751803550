// `skerry-sim swarm`: random runs with random faults until one is wrong or the time is up.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace skerry {

struct SwarmOptions {
  uint64_t first = 1;  // seed
  int64_t seeds = 100;
  std::optional<double> minutes;  // of real time, at most
  bool twice = false;             // each seed two times: equal traces
  bool keep_going = false;        // after a finding
  bool events = false;            // print every event of the first seed instead
};

// Internal when a seed was wrong; the findings have been printed, each with the command that
// repeats it.
absl::Status Swarm(const SwarmOptions& options, const volatile bool& interrupted);

}  // namespace skerry
