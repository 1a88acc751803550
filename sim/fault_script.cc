#include "sim/fault_script.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"

namespace skerry {
namespace {

// Node numbers: 0 is the coordinator.
NodeId IdOf(int32_t number) {
  return number == 0 ? VirtualRun::coordinator() : VirtualRun::node(number - 1);
}

bool IsOfWay(const Fault& fault) {
  return fault.kind == FaultKind::kCut || fault.kind == FaultKind::kSlowLink ||
         fault.kind == FaultKind::kLossBurst;
}

bool Befalls(const Fault& fault, const NetworkSpec& map, int32_t from, int32_t to) {
  return (fault.where.Has(from, map) && fault.other.Has(to, map)) ||
         (fault.both_directions && fault.where.Has(to, map) && fault.other.Has(from, map));
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

// What befalls processes and devices, and cuts of a network of flows.
class Script {
 public:
  Script(const NetworkSpec& map, Duration horizon, VirtualRun& run)
      : map_(map), horizon_(horizon), run_(run) {}

  void Add(const Fault& fault) {
    if (fault.kind == FaultKind::kCut && run_.simulation().network() != nullptr) return Cut(fault);
    if (IsOfWay(fault)) return;
    if (fault.kind == FaultKind::kCoordinatorCrash) {
      if (fault.at_record) return;
      return Crash(0, fault.at, fault.lasts.value_or(kCoordinatorAway), Disk::kKept);
    }
    for (const int32_t number : fault.where.Nodes(map_)) AddTo(fault, number);
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
    switch (fault.kind) {
      case FaultKind::kCrash:
      case FaultKind::kRestart:
        return Crash(number, fault.at, fault.lasts, fault.keeps_disk ? Disk::kKept : Disk::kLost);
      case FaultKind::kHang:
        return run_.simulation().Hang(id, fault.at,
                                      fault.lasts ? fault.at + *fault.lasts : Instant() + horizon_);
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
      case FaultKind::kPoisonedDelta:
      case FaultKind::kWild:
        return Lie(fault, number);
      default:
        return;  // not of a process
    }
  }

  void Lie(const Fault& fault, int32_t number) {
    Between(fault, [run = &run_, number, fault](Simulation&, bool begins) {
      StageFaults& faults = run->faults(number - 1);
      if (fault.kind == FaultKind::kWrongResult) {
        faults.wrong_results = begins ? fault.probability : 0;
      } else if (fault.kind == FaultKind::kWild) {
        faults.wild = begins ? WildDelta{fault.factor, fault.is_noise} : WildDelta{};
      } else {
        faults.poisoned_deltas = begins && !fault.is_void;
        faults.void_deltas = begins && fault.is_void;
      }
    });
  }

  void Cut(const Fault& fault) {
    std::vector<std::pair<NodeId, NodeId>> ways;
    const auto processes = static_cast<int32_t>(run_.options().nodes.size()) + 1;
    for (int32_t from = 0; from < processes; ++from) {
      for (int32_t to = 0; to < processes; ++to) {
        if (from != to && Befalls(fault, map_, from, to)) ways.emplace_back(IdOf(from), IdOf(to));
      }
    }
    Between(fault, [ways](Simulation& s, bool begins) {
      for (const auto& [from, to] : ways) s.Cut(from, to, begins);
    });
    if (run_.options().relays_cut_pairs && IsRelayed(fault)) Relay(fault, ways);
  }

  void Relay(const Fault& fault, const std::vector<std::pair<NodeId, NodeId>>& ways) {
    Fault relayed = fault;
    relayed.at = fault.at + kRelayedAfter;
    if (fault.lasts) relayed.lasts = *fault.lasts - kRelayedAfter;
    Between(relayed, [ways](Simulation& s, bool begins) {
      for (const auto& [from, to] : ways) s.Bridge(from, to, begins);
    });
  }

  const NetworkSpec& map_;
  Duration horizon_;
  VirtualRun& run_;
};

std::string EndName(const FaultEnd& end) {
  if (end.kind == FaultEnd::Kind::kEverything) return "everything";
  if (end.kind == FaultEnd::Kind::kRegion) return absl::StrFormat("region %d", end.index);
  return end.index == 0 ? "the coordinator" : absl::StrFormat("node %d", end.index);
}

std::string Strength(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kSlowDevice:
    case FaultKind::kSlowLink:
      return absl::StrFormat(" %.1f times", fault.factor);
    case FaultKind::kLossBurst:
    case FaultKind::kWrongResult:
      return absl::StrFormat(" %.2f", fault.probability);
    case FaultKind::kClockJump:
      return absl::StrFormat(" by %.3f s", fault.by.seconds());
    case FaultKind::kClockDrift:
      return absl::StrFormat(" %.0f ppm", fault.drift_ppm);
    case FaultKind::kWild:
      return absl::StrFormat(" %g times%s", fault.factor, fault.is_noise ? " in noise" : "");
    case FaultKind::kPoisonedDelta:
      return fault.is_void ? " no message at all" : "";
    case FaultKind::kRestart:
      return fault.keeps_disk ? "" : " without its disk";
    default:
      return "";
  }
}

}  // namespace

absl::Status PrepareFaults(const std::vector<Fault>& faults, const NetworkSpec& map,
                           VirtualRunOptions& options) {
  NetworkSpec none;
  WayFaults ways(options.network ? *options.network : none);
  for (const Fault& fault : faults) {
    switch (fault.kind) {
      case FaultKind::kSlowLink:
      case FaultKind::kLossBurst:
        if (options.network) SKERRY_RETURN_IF_ERROR(ways.Add(fault));
        break;
      case FaultKind::kWrongResult:
      case FaultKind::kPoisonedDelta:
        for (const int32_t number : fault.where.Nodes(map)) options.liars.insert(number - 1);
        break;
      case FaultKind::kWild:
        if (options.math == VirtualMath::kModelled) {
          return InvalidArgument("line %d: wild acts on numbers, which there are with --real-math",
                                 fault.line);
        }
        break;
      case FaultKind::kCoordinatorCrash:
        if (fault.at_record) {
          options.coordinator_crashes[*fault.at_record] = fault.lasts.value_or(kCoordinatorAway);
        }
        break;
      default:
        break;
    }
  }
  ways.Finish();
  return absl::OkStatus();
}

void ScriptFaults(const std::vector<Fault>& faults, const NetworkSpec& map, Duration horizon,
                  VirtualRun& run) {
  Script script(map, horizon, run);
  for (const Fault& fault : faults) script.Add(fault);
}

bool IsRelayed(const Fault& fault) {
  const auto is_node = [](const FaultEnd& end) {
    return end.kind == FaultEnd::Kind::kNode && end.index > 0;
  };
  return fault.kind == FaultKind::kCut && is_node(fault.where) && is_node(fault.other) &&
         (!fault.lasts || *fault.lasts > kRelayedAfter);
}

bool IsRelayedNow(const std::vector<Fault>& faults, int32_t from, int32_t to, Instant now) {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    const auto pair = std::minmax(fault.where.index, fault.other.index);
    return IsRelayed(fault) && pair == std::minmax(from, to) && now >= fault.at + kRelayedAfter &&
           (!fault.lasts || now < fault.at + *fault.lasts);
  });
}

SimLink DisturbedLink(SimLink link, const std::vector<Fault>& faults, const NetworkSpec& map,
                      int32_t from, int32_t to, Instant now) {
  for (const Fault& fault : faults) {
    if (!IsOfWay(fault) || now < fault.at || (fault.lasts && now >= fault.at + *fault.lasts) ||
        !Befalls(fault, map, from, to)) {
      continue;
    }
    if (fault.kind == FaultKind::kCut) link.loss = 1;
    if (fault.kind == FaultKind::kLossBurst) link.loss = std::max(link.loss, fault.probability);
    if (fault.kind == FaultKind::kSlowLink) link.bytes_per_s /= fault.factor;
  }
  return link;
}

std::string Told(const Fault& fault) {
  std::string text = fault.at_record
                         ? absl::StrFormat("record %d: ", *fault.at_record)
                         : absl::StrFormat("%.3f s: ", (fault.at - Instant()).seconds());
  text += NameOf(fault.kind) + Strength(fault) + ", " + EndName(fault.where);
  if (IsOfWay(fault)) {
    text += (fault.both_directions ? " and " : " to ") + EndName(fault.other);
  }
  return text + (fault.lasts ? absl::StrFormat(", for %.3f s", fault.lasts->seconds()) : "");
}

}  // namespace skerry
