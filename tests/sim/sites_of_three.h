// One stage of so many sites of three, each pair of nodes with a way of its own.
#pragma once

#include "tests/sim/sharded_fleet.h"

namespace skerry::testing {

inline constexpr int32_t kMembers = 3;

// −1: the coordinator's.
inline int32_t SiteOf(const NodeId& id, int32_t sites) {
  for (int32_t i = 0; i < sites * kMembers; ++i) {
    if (VirtualRun::node(i) == id) return i / kMembers;
  }
  return -1;
}

// Its sites are its cohorts.
inline VirtualRunOptions SitesOfThree(int32_t sites) {
  VirtualRunOptions options = EightNodes();
  options.config.steps = 24;
  options.config.nodes_min = sites * kMembers;
  options.nodes.assign(static_cast<size_t>(sites * kMembers), options.nodes.front());
  options.config.pipeline.stages = 1;
  options.config.pipeline.microbatches_per_step = sites * kMembers;
  options.config.outer.inner_steps = 4;
  options.config.cluster = {"measured", 400, 5};
  options.link = [sites](const NodeId& from, const NodeId& to) {
    const int32_t site = SiteOf(from, sites);
    const bool is_near = site >= 0 && site == SiteOf(to, sites);
    return SimLink{.one_way = Duration::Millis(is_near ? 1 : 20),
                   .bytes_per_s = is_near ? 1.25e8 : 1.25e6,
                   .jitter = {}};
  };
  return options;
}

}  // namespace skerry::testing
