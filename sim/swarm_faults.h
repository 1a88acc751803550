// What befalls a run of the swarm: faults of every kind, drawn.
#pragma once

#include <vector>

#include "sim/fault_plan.h"
#include "sim/network_spec.h"
#include "sim/swarm_dice.h"

namespace skerry {

// `over_flows`: slower and lossier ways lie between whole regions, as a network of flows wants it.
std::vector<Fault> DrawFaults(Dice& dice, const NetworkSpec& map, bool over_flows);

// What makes nodes late that the coordinator hears of all the time: a link between two of them that
// breaks, often for good, or becomes slow, a device that does, a process that stops again and again
// for less than it takes to be taken for dead.
void DrawLateness(Dice& dice, int32_t nodes, bool over_flows, std::vector<Fault>& faults);

}  // namespace skerry
