// What of a scenario real processes on one machine can imitate, with either shaper; what it cannot
// is refused here, never left out.
//
// The in-process shaper (wire/shaper.h) gives every pair of processes a line with the delay and
// rate of their regions, and every process the same access line. The packet shaper (sim/packet/)
// knows the whole network, except changes over time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/scenario.h"
#include "wire/shape_config.h"

namespace skerry {

inline constexpr size_t kEmulatedNodesMax = 64;  // processes on one machine

// OK, or FailedPrecondition with file, where it can with the line, and the first thing that stands
// in the way: too many nodes, faults, churn, loss, jitter, capacities or lines that several nodes
// share, unequal lines, rates that change.
absl::Status CanEmulate(const Scenario& scenario);

// Likewise with packets: loss, jitter, shared capacities and lines of any kind are fine; faults,
// churn and rates that change are not.
absl::Status CanEmulatePackets(const Scenario& scenario);

// The scenario's network for the shaper; access delays are part of the pairs'. CanEmulate's status
// if it cannot be said.
absl::StatusOr<WanShape> WanShapeOf(const Scenario& scenario);

// What a pair of nodes gets from one region to another, by which links as measured are judged: an
// empty list where the lines differ between the nodes of a region, or several share them.
struct RegionLink {
  std::string from, to;
  LinkShape link;
};
std::vector<RegionLink> ConfiguredLinks(const Scenario& scenario);

// As a wan.toml, which ParseWanShape reads to the same shape (delays to the nanosecond). Rates
// without a limit become the file's highest.
std::string FormatWanShape(const WanShape& shape);

}  // namespace skerry
