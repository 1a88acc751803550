// `skerry-sim swarm`: random runs with random faults until one is wrong or the time is up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "sim/swarm.h"

namespace skerry {

struct SwarmOptions {
  uint64_t first = 1;           // seed
  int64_t seeds = 0;            // 0: 100, of the grid all cells, with `rounds` as many as it takes
  int32_t draw = kSwarmDraw;    // what seeds mean (swarm.h)
  bool storm = false;           // draw 12 (storm.h)
  bool numbers = false;         // of storms: draw 15, real arithmetic
  bool false_sums = false;      // draw 16: and one who falsifies sums
  bool false_work = false;      // draw 17: and one who passes on what comes, and checks of work
  bool introduces_few = false;  // SwarmSeed::introduces_few
  bool grid = false;            // draw 13, every cell kGridTimes over (fault_grid.h)
  int64_t rounds = 0;           // end when so many faulted rounds were frozen; 0: seeds decide
  int32_t jobs = 1;             // runs at a time, a thread each
  std::optional<double> minutes;  // of real time, at most
  bool twice = false;             // each seed two times: equal traces
  bool keep_going = false;        // after a finding
  bool events = false;            // print every event of the first seed instead
  bool messages = false;          // and every message
  std::string hashes;             // write "seed hash" lines of every trace here; "": nowhere
};

// Prints in the order of seeds, whatever the number of jobs. Internal when a seed was wrong; the
// findings have been printed, each with the command that repeats it. InvalidArgument: an option is
// out of range, or the file of hashes cannot be written. Once interrupted it prints what it has and
// ends the process.
absl::Status Swarm(const SwarmOptions& options, const volatile bool& interrupted);

}  // namespace skerry
