// Random runs with random faults, a seed each: what a seed does wrong once it does wrong again.
//
// A seed draws a small run (configuration, fleet, links) and what befalls it: crashes with and
// without return, a coordinator that dies, slow devices, late volunteers. The run must finish under
// all checkers, or end for the one reason that allows it: no data node is left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/virtual_run.h"

namespace skerry {

// A run drawn from a seed, its faults already scripted; `story` lists them for people.
struct SwarmRun {
  std::unique_ptr<VirtualRun> run;
  std::vector<std::string> story;
};
SwarmRun DrawSwarmRun(uint64_t seed, bool keep_events = false);

struct SwarmFinding {
  uint64_t seed = 0;
  std::vector<std::string> story;
  VirtualOutcome outcome;
  std::string wrong;  // the first thing that is
};

// What is wrong with a run that is over; empty: nothing.
std::string WhatIsWrong(const VirtualRun& run, const VirtualOutcome& outcome);

// Runs one seed, twice if `twice` (the traces must be equal); nullopt: all is well.
std::optional<SwarmFinding> TrySwarmSeed(uint64_t seed, bool twice);

}  // namespace skerry
