// Small fleets and workloads for tests of routing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "routing/evaluator.h"

namespace skerry {

// `n` nodes of 1 GFLOP/s; every link has this latency (rtt / 2) and wire time.
inline Fleet EvenFleet(int32_t n, double latency_s, double wire_s) {
  const auto pairs = static_cast<size_t>(n) * static_cast<size_t>(n);
  Fleet fleet;
  fleet.gflops.assign(static_cast<size_t>(n), 1.0);
  fleet.latency_s.assign(pairs, latency_s);
  fleet.wire_s.assign(pairs, wire_s);
  return fleet;
}

inline constexpr double kSecond = 1e9;  // operations in a second of those nodes

}  // namespace skerry
