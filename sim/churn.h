// Who is there when: nodes that come and go, drawn from fitted distributions or replayed from a
// published trace, as one list of events that a seed determines.
//
// The hazard of real volunteers and spot machines falls with their age: Weibull shapes of 0.33 to
// 0.85 in the Failure Trace Archive's fits (Javadi et al., JPDC 2013); exponential churn is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/instant.h"

namespace skerry {

// A Weibull-distributed time: P(T > t) = exp(−(t / scale)^shape). Mean: scale · Γ(1 + 1/shape).
struct WeibullTime {
  double shape = 1;
  Duration scale;
  bool operator==(const WeibullTime&) const = default;
};

// kFresh: every node comes up at time 0. kStationary: the population has been at it for ever; a
// node is up with probability mean up / (mean up + mean down), and its age is drawn accordingly.
enum class ChurnStart : uint8_t { kFresh, kStationary };

// One machine of a trace appears or goes. Machines are told apart by `machine` only.
struct TraceEvent {
  Instant at;
  int32_t machine = 0;
  bool up = false;
};

struct ChurnSpec {
  WeibullTime up;
  WeibullTime down;
  ChurnStart start = ChurnStart::kFresh;
  std::vector<TraceEvent> trace;  // if not empty, instead of the distributions; by time
  bool keeps_disk = true;         // a node that returns still has what it had on disk
};

struct ChurnEvent {
  Instant at;
  int32_t node = 0;
  bool up = false;
  bool operator==(const ChurnEvent&) const = default;
};

// Events of [0, horizon], ordered by (time, node), of the node numbers `nodes`. Every node counts
// as up before time 0: one that starts down has a "down" at 0. A node's times depend on (seed, its
// number) only, so other nodes do not disturb them.
//
// With a trace, a machine that appears takes the first of `nodes` that is down, and keeps it until
// it goes. InvalidArgument if more machines are there at once than nodes, or a node would come and
// go 100,000 times.
absl::StatusOr<std::vector<ChurnEvent>> MakeChurn(const ChurnSpec& spec,
                                                  std::span<const int32_t> nodes, Duration horizon,
                                                  uint64_t seed);

// The most machines that are there at once.
int32_t MachinesAtOnce(const std::vector<TraceEvent>& trace);

// What happened up to `from` happens at time 0, and only its outcome; the rest comes `from`
// earlier.
std::vector<TraceEvent> StartTraceAt(const std::vector<TraceEvent>& trace, Instant from);

// A trace as published for Bamboo (NSDI 2023): columns t_ms, event (add | remove), node. A machine
// is added before it is removed, times do not fall. InvalidArgument with file and line.
absl::StatusOr<std::vector<TraceEvent>> LoadChurnTrace(const std::string& path);

}  // namespace skerry
