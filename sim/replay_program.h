// `skerry-sim replay DIR`: a measured run beside its simulation, and what-ifs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace skerry {

struct ReplayProgramOptions {
  std::string directory;
  std::vector<std::string> what_ifs;
  int64_t steps = 0;  // simulated; 0: as many as the run has, at most 96
  uint64_t seed = 1;
  bool as_probed = false;     // devices are not fitted to the measured step
  bool shared_lines = false;  // ReplayedRun::shared_lines
  bool json = false;
};

// Registers the command; `options` are written when it is parsed and must outlive `app`.
CLI::App* AddReplayCommand(CLI::App& app, ReplayProgramOptions& options);

// Prints the table. JSON is one object: measured, as_probed, baseline (figures of sim/replay.h),
// device_share, what_if [{what, figures}], notes.
absl::Status RunReplay(const ReplayProgramOptions& options);

}  // namespace skerry
