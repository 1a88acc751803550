// What befalls a run of the swarm: faults of every kind, drawn.
#pragma once

#include <vector>

#include "sim/fault_plan.h"
#include "sim/network_spec.h"
#include "sim/swarm_dice.h"

namespace skerry {

// `over_flows`: slower and lossier ways lie between whole regions, as a network of flows wants it.
std::vector<Fault> DrawFaults(Dice& dice, const NetworkSpec& map, bool over_flows);

}  // namespace skerry
