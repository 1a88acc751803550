#include "sim/scenario_run.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

constexpr Duration kCoordinatorAway = Duration::Seconds(5);  // when a fault does not say how long
constexpr Duration kJoinSpread = Duration::Millis(20);

// Node numbers of a scenario: 0 is the coordinator.
NodeId IdOf(int32_t number) {
  return number == 0 ? VirtualRun::coordinator() : VirtualRun::node(number - 1);
}

// Slower or lossier ways become changes of the network itself.
class WayFaults {
 public:
  explicit WayFaults(NetworkSpec& network) : network_(network) {}

  absl::Status Add(const Fault& fault) {
    if (fault.where.kind != FaultEnd::Kind::kRegion ||
        fault.other.kind != FaultEnd::Kind::kRegion) {
      return InvalidArgument("line %d: %s acts between regions; want two regions", fault.line,
                             NameOf(fault.kind));
    }
    Change(fault, fault.where.index, fault.other.index);
    if (fault.both_directions) Change(fault, fault.other.index, fault.where.index);
    return absl::OkStatus();
  }

  void Finish() {
    std::stable_sort(network_.path_changes.begin(), network_.path_changes.end(),
                     [](const PathChange& a, const PathChange& b) { return a.at < b.at; });
  }

 private:
  void Change(const Fault& fault, int32_t from, int32_t to) {
    const size_t regions = network_.regions.size();
    const PathSpec usual = network_.paths[static_cast<size_t>(from) * regions + size_t(to)];
    PathSpec faulty = usual;
    if (fault.kind == FaultKind::kLossBurst) {
      faulty.loss = std::max(usual.loss, fault.probability);
    } else {
      faulty.bytes_per_s /= fault.factor;
      faulty.flow_bytes_per_s /= fault.factor;
    }
    network_.path_changes.push_back({fault.at, from, to, faulty});
    if (fault.lasts) network_.path_changes.push_back({fault.at + *fault.lasts, from, to, usual});
  }

  NetworkSpec& network_;
};

// What befalls processes and devices.
class Script {
 public:
  Script(const Scenario& scenario, VirtualRun& run) : scenario_(scenario), run_(run) {}

  void Add(const Fault& fault) {
    if (fault.kind == FaultKind::kCut) return Cut(fault);
    for (const int32_t number : fault.where.Nodes(scenario_.network)) AddTo(fault, number);
    if (fault.kind == FaultKind::kCoordinatorCrash && !fault.at_record) {
      Crash(0, fault.at, fault.lasts.value_or(kCoordinatorAway), Disk::kKept);
    }
  }

  void Add(const ChurnEvent& event, bool keeps_disk) {
    if (event.up) {
      run_.simulation().StartAt(event.at, IdOf(event.node), keeps_disk ? Disk::kKept : Disk::kLost);
    } else {
      run_.simulation().CrashAt(event.at, IdOf(event.node));
    }
  }

 private:
  void Crash(int32_t number, Instant at, std::optional<Duration> away, Disk disk) {
    run_.simulation().CrashAt(at, IdOf(number));
    if (away) run_.simulation().StartAt(at + *away, IdOf(number), disk);
  }

  // `set` is called at the beginning with true, at the end with false.
  void Between(const Fault& fault, std::function<void(Simulation&, bool)> set) {
    run_.simulation().At(fault.at, [set](Simulation& s) { set(s, true); });
    if (fault.lasts) {
      run_.simulation().At(fault.at + *fault.lasts, [set](Simulation& s) { set(s, false); });
    }
  }

  void AddTo(const Fault& fault, int32_t number) {
    const NodeId id = IdOf(number);
    VirtualRun* run = &run_;
    switch (fault.kind) {
      case FaultKind::kCrash:
      case FaultKind::kRestart:
        return Crash(number, fault.at, fault.lasts, fault.keeps_disk ? Disk::kKept : Disk::kLost);
      case FaultKind::kHang:
        return run_.simulation().Hang(
            id, fault.at, fault.lasts ? fault.at + *fault.lasts : Instant() + scenario_.horizon);
      case FaultKind::kSlowDevice:
        return Between(fault, [id, factor = fault.factor](Simulation& s, bool begins) {
          s.SlowDevice(id, begins ? factor : 1);
        });
      case FaultKind::kClockJump:
        return run_.simulation().At(fault.at,
                                    [id, by = fault.by](Simulation& s) { s.JumpClock(id, by); });
      case FaultKind::kClockDrift:
        return Between(fault, [id, ppm = fault.drift_ppm](Simulation& s, bool begins) {
          s.DriftClock(id, begins ? 1 + ppm * 1e-6 : 1);
        });
      case FaultKind::kDiskFull:
        return Between(fault, [id](Simulation& s, bool begins) { s.FillDisk(id, begins); });
      case FaultKind::kWrongResult:
        return Between(fault, [run, number, share = fault.probability](Simulation&, bool begins) {
          run->faults(number - 1).wrong_results = begins ? share : 0;
        });
      case FaultKind::kPoisonedDelta:
        return Between(fault, [run, number](Simulation&, bool begins) {
          run->faults(number - 1).poisoned_deltas = begins;
        });
      case FaultKind::kSlowLink:
      case FaultKind::kLossBurst:
      case FaultKind::kCut:
      case FaultKind::kCoordinatorCrash:
        return;  // not of a process
    }
  }

  void Cut(const Fault& fault) {
    std::vector<std::pair<NodeId, NodeId>> ways;
    const auto processes = static_cast<int32_t>(scenario_.nodes.size()) + 1;
    for (int32_t a = 0; a < processes; ++a) {
      for (int32_t b = 0; b < processes; ++b) {
        if (a == b || !fault.where.Has(a, scenario_.network) ||
            !fault.other.Has(b, scenario_.network)) {
          continue;
        }
        ways.emplace_back(IdOf(a), IdOf(b));
        if (fault.both_directions) ways.emplace_back(IdOf(b), IdOf(a));
      }
    }
    Between(fault, [ways](Simulation& s, bool begins) {
      for (const auto& [from, to] : ways) s.Cut(from, to, begins);
    });
  }

  const Scenario& scenario_;
  VirtualRun& run_;
};

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
  WayFaults ways(*run_options.network);
  for (const Fault& fault : scenario.faults) {
    switch (fault.kind) {
      case FaultKind::kSlowLink:
      case FaultKind::kLossBurst:
        SKERRY_RETURN_IF_ERROR(ways.Add(fault));
        break;
      case FaultKind::kWrongResult:
      case FaultKind::kPoisonedDelta:
        for (const int32_t number : fault.where.Nodes(scenario.network)) {
          run_options.liars.insert(number - 1);
        }
        break;
      case FaultKind::kCoordinatorCrash:
        if (fault.at_record) {
          run_options.coordinator_crashes[*fault.at_record] =
              fault.lasts.value_or(kCoordinatorAway);
        }
        break;
      default:
        break;
    }
  }
  ways.Finish();
  auto run = std::make_unique<VirtualRun>(std::move(run_options));
  Script script(scenario, *run);
  for (const Fault& fault : scenario.faults) script.Add(fault);
  for (const ChurnGroup& group : scenario.churn) {
    SKERRY_ASSIGN_OR_RETURN(const auto events,
                            MakeChurn(group.spec, group.nodes, scenario.horizon, options.seed));
    for (const ChurnEvent& event : events) script.Add(event, group.spec.keeps_disk);
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
