// A scenario on virtual time: its nodes, network, faults and churn as one VirtualRun.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "sim/scenario.h"
#include "sim/virtual_run.h"

namespace skerry {

struct ScenarioRunOptions {
  uint64_t seed = 1;
  // Trains a tiny model of as many layers for real, at the scenario's own times and sizes.
  bool real_math = false;
  bool keep_events = true;  // VirtualRun::events(); costs memory in long runs
};

// Everything that befalls the run is scripted when this returns. `scenario` is copied where needed.
// InvalidArgument, with the line: a fault that this simulator cannot bring about.
absl::StatusOr<std::unique_ptr<VirtualRun>> MakeScenarioRun(const Scenario& scenario,
                                                            const ScenarioRunOptions& options);

// The expected figures that were missed, one sentence each.
std::vector<std::string> MissedExpectations(const Scenario& scenario,
                                            const VirtualOutcome& outcome);

}  // namespace skerry
