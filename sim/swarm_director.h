// Whoever chooses what befalls a run of the swarm while it goes on, and says in the end whether it
// went well: storms (storm.h), the grid of faults (fault_grid.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/sum_watch.h"
#include "sim/virtual_run.h"

namespace skerry {

class SwarmDirector {
 public:
  virtual ~SwarmDirector() = default;
  // Of a run that is over and broke no rule of the checkers; empty: nothing.
  virtual std::string WhatIsWrong(const VirtualOutcome& outcome) const = 0;
  // What it did, for people.
  virtual const std::vector<std::string>& story() const = 0;
  virtual int64_t faults() const = 0;
  // Rounds of stages that were frozen, and that something befell the run in since the stage's last.
  virtual int64_t faulted_rounds() const = 0;
  virtual SumTally sums() const { return {}; }
};

}  // namespace skerry
