// What several draws of the swarm have in common.
//
// The order of throws is part of what a seed means: change nothing here that an older draw uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/swarm_dice.h"
#include "sim/virtual_run.h"

namespace skerry {

// With what was not there, or off, when draws 1 to 18 were made: no robust means, unchecked sums.
OuterConfig OuterOfOldDraws();

// A small model and how it is trained, by all-to-all rounds, as OuterOfOldDraws.
RunConfig DrawConfig(Dice& dice, int32_t nodes);

// Devices for which a layer takes some tens of milliseconds: slower than most links, not than all.
VirtualNode DrawNode(Dice& dice, const RunConfig& config);

// Of every ordered pair of processes, the coordinator first.
std::vector<std::vector<SimLink>> DrawLinks(Dice& dice, int32_t processes);

// Any mode, and what goes with it.
void DrawMode(Dice& dice, RunConfig& config);

// Of a process of a VirtualRun: 0 is the coordinator.
int32_t NumberOf(const NodeId& id);

// The run in a line, for people.
std::string Told(const VirtualRunOptions& options);

}  // namespace skerry
