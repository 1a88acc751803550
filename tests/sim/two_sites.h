// Eight nodes on two sites, where replicas of a stage that are on one site are a cohort.
#pragma once

#include <cstdint>

#include "tests/sim/sharded_fleet.h"

namespace skerry::testing {

inline constexpr int32_t kNodesOfSite = 4;

// −1: the coordinator's.
inline int32_t SiteOf(const NodeId& id) {
  for (int32_t i = 0; i < 8; ++i) {
    if (VirtualRun::node(i) == id) return i / kNodesOfSite;
  }
  return -1;
}

// Two sites of four, 20 ms apart; a millisecond inside.
inline VirtualRunOptions TwoSites(VirtualMath math, uint64_t seed) {
  VirtualRunOptions options = EightNodes();
  options.math = math;
  options.seed = seed;
  options.config.steps = 24;
  options.config.outer.inner_steps = 4;
  options.config.outer.overlap_steps = 2;
  options.config.outer.reduce = OuterReduce::kAuto;
  options.config.cluster = {"measured", 400, 5};
  options.link = [](const NodeId& from, const NodeId& to) {
    const int32_t site = SiteOf(from);
    const bool is_near = site >= 0 && site == SiteOf(to);
    return SimLink{.one_way = Duration::Millis(is_near ? 1 : 20),
                   .bytes_per_s = is_near ? 1.25e8 : 1.25e6,
                   .jitter = {}};
  };
  return options;
}

}  // namespace skerry::testing
