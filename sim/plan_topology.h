// A scenario as the coordinator would see it before it plans: the nodes' own words about their
// devices, and one reading of every link, through the same hygiene as measured ones.
//
// A reading is what an idle link gives a node's probe: the round trip of both ways, and the least
// of the sender's uplink, the receiver's downlink, the path, the cap of a flow and the window per
// round trip. Nodes of one site that may share its line are known to, as if tested
// (routing/access_lines.h), if the scenario's coordinator tests.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/plan/planner.h"
#include "sim/scenario.h"

namespace skerry {

struct Topology {
  PlannerInput input;                // nodes ascending, node i is number i + 1 of the scenario
  std::vector<std::string> regions;  // [nodes]
};

absl::StatusOr<Topology> TopologyOf(const Scenario& scenario, const RunConfig& run);

}  // namespace skerry
