// The cohorts of a plan that `skerry-sim plan` shows: who is together, what their rings take, what
// speakers send.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/plan_comparison.h"

namespace skerry {

// A line for each stage and one for all; "" where [cluster] groups is off.
std::string PlannedCohortsText(const PlanComparison& comparison);

// {"groups", "speakers", "replicas", "ring_s", "round_bytes", "alone_bytes", "stages": [[{"nodes",
// speaker first, as counted in the topology, "ring_s"}]]}. Bytes are those of a round's deltas
// between speakers, and between all replicas that are not in one cohort, were each to speak. Null
// where groups is off.
nlohmann::ordered_json PlannedCohortsJson(const PlanComparison& comparison);

}  // namespace skerry
