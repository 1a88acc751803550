#include "sim/scenario_run.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "sim/fault_script.h"

namespace skerry {
namespace {

constexpr Duration kJoinSpread = Duration::Millis(20);

// Node numbers of a scenario: 0 is the coordinator.
NodeId IdOf(int32_t number) {
  return number == 0 ? VirtualRun::coordinator() : VirtualRun::node(number - 1);
}

void Follow(const ChurnEvent& event, bool keeps_disk, VirtualRun& run) {
  if (event.up) {
    run.simulation().StartAt(event.at, IdOf(event.node), keeps_disk ? Disk::kKept : Disk::kLost);
  } else {
    run.simulation().CrashAt(event.at, IdOf(event.node));
  }
}

VirtualRunOptions OptionsOf(const Scenario& scenario, const ScenarioRunOptions& options) {
  VirtualRunOptions run;
  run.config = scenario.run;
  run.config.nodes_min =
      std::min(run.config.nodes_min, static_cast<int32_t>(scenario.nodes.size()));
  run.seed = options.seed;
  run.math = options.real_math ? VirtualMath::kTiny : VirtualMath::kModelled;
  run.keep_events = options.keep_events;
  run.limit = scenario.horizon;
  run.network = scenario.network;
  run.tests_lines = scenario.tests_lines;
  for (size_t i = 0; i < scenario.nodes.size(); ++i) {
    const ScenarioNode& node = scenario.nodes[i];
    run.nodes.push_back({scenario.RegionOf(static_cast<int32_t>(i) + 1),
                         ProfileOf(node.device, node.format), node.device.memory_gb_per_s * 1e9,
                         Instant() + kJoinSpread * static_cast<int64_t>(i + 1)});
  }
  for (const Checker checker : scenario.checkers) {
    run.rules.insert(kCheckerNames[static_cast<size_t>(checker)]);
  }
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VirtualRun>> MakeScenarioRun(const Scenario& scenario,
                                                            const ScenarioRunOptions& options) {
  VirtualRunOptions run_options = OptionsOf(scenario, options);
  SKERRY_RETURN_IF_ERROR(PrepareFaults(scenario.faults, scenario.network, run_options));
  auto run = std::make_unique<VirtualRun>(std::move(run_options));
  ScriptFaults(scenario.faults, scenario.network, scenario.horizon, *run);
  for (const ChurnGroup& group : scenario.churn) {
    SKERRY_ASSIGN_OR_RETURN(const auto events,
                            MakeChurn(group.spec, group.nodes, scenario.horizon, options.seed));
    for (const ChurnEvent& event : events) Follow(event, group.spec.keeps_disk, *run);
  }
  return run;
}

std::vector<std::string> MissedExpectations(const Scenario& scenario,
                                            const VirtualOutcome& outcome) {
  std::vector<std::string> missed;
  const auto want = [&](const char* what, std::optional<double> wanted, double got, bool at_most) {
    if (!wanted || (at_most ? got <= *wanted : got >= *wanted)) return;
    missed.push_back(
        absl::StrFormat("%s: want %s %g, got %g", what, at_most ? "≤" : "≥", *wanted, got));
  };
  const Expectations& expect = scenario.expect;
  want("step_s_min", expect.step_s_min, outcome.step_s, false);
  want("step_s_max", expect.step_s_max, outcome.step_s, true);
  want("hidden_fraction_min", expect.hidden_fraction_min, outcome.hidden_fraction, false);
  want("tokens_per_s_min", expect.tokens_per_s_min, outcome.tokens_per_s, false);
  want("rounds_min", expect.rounds_min, static_cast<double>(outcome.rounds), false);
  want("finish_s_max", expect.finish_s_max, outcome.virtual_s, true);
  if (expect.finish_s_max && !outcome.finished) missed.push_back("the run did not finish");
  return missed;
}

}  // namespace skerry
