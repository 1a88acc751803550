// `skerry-sim run`: a scenario on virtual time, checked, told as a table or as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace skerry {

struct RunScenarioOptions {
  std::string scenario;
  uint64_t seed = 1;
  bool real_math = false;
  bool json = false;
  bool twice = false;   // the second run must have the same trace
  std::string trace;    // Chrome trace file; "": none
  std::string out_dir;  // events.jsonl, report.json, report.html, simulation.html; "": none
  std::string report;   // sim/run_report.h's page; "": none
  std::optional<int64_t> gantt_step;  // where its Gantt begins; none: about the middle
  std::vector<std::string> changes;   // of the configuration, sim/config_change.h
};

// Internal: a rule was violated, a figure missed, the run did not finish, or two runs of one seed
// differ; what it was has been printed.
absl::Status RunScenario(const RunScenarioOptions& options);

}  // namespace skerry
