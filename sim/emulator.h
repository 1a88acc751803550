// `skerry-sim emulate`: a scenario with real processes on this machine, over links shaped
// in-process, or packet by packet between network namespaces (emulated_network.h).
//
// Starts one skerry-coordinator and the scenario's skerry-nodes, shows the run, survives the death
// of any of them (a coordinator that stays away is started again after a while), and ends with the
// model, its evaluation, a sample and a report. Every child dies with this process. A run whose
// packet shaper was late gets no report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "sim/emulated_network.h"

namespace skerry {

struct EmulateOptions {
  std::string scenario;          // path of scenario.toml or its directory
  std::string out_dir;           // emptied of an earlier emulation, then filled
  std::string programs_dir;      // where skerry-node and skerry-coordinator are
  bool reference = false;        // also train the same model in one process
  std::optional<uint64_t> seed;  // instead of the run's
  std::optional<int64_t> steps;
  std::optional<int64_t> checkpoints;  // rounds between two
  EmulateShaper shaper = EmulateShaper::kInProcess;
};

// Blocks until the run is over and the report is written, or `interrupted` (a signal came) is set.
absl::Status Emulate(const EmulateOptions& options, const volatile bool& interrupted);

}  // namespace skerry
