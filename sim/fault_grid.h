// The grid of faults: every kind of fault strikes exactly while every phase is under way at its
// victim, twenty times over with other runs, victims and moments.
//
// A cell is a fault and a phase; seed n of draw 13 is cell (n − 1) mod kGridCells, for the
// (n − 1) / kGridCells-th time. The run must make all its steps and its model be collected, under
// all checkers; nobody but the victim may be put out or end by itself; and the phase must have
// come.
#pragma once

#include <cstdint>
#include <string>

#include "sim/swarm.h"

namespace skerry {

enum class GridFault : uint8_t {
  kKill,             // for good
  kRestart,          // killed, and back soon, with nothing
  kHang,             // stopped for a while, at times longer than it takes to be taken for dead
  kCutOff,           // nobody reaches it, it reaches nobody
  kOneWay,           // what it sends to one other is lost for a while
  kDiskFull,         // its own, or the coordinator's
  kLeave,            // Ctrl-C; at times it comes back
  kCoordinatorDies,  // and is back soon
  kLast = kCoordinatorDies
};
enum class GridPhase : uint8_t {
  kJoining,     // it was welcomed, before the plan or long after
  kStep,        // it works on a microbatch
  kBoundary,    // it has sent its delta, whose round is not frozen
  kLanding,     // it has heard of a commit that it has not landed
  kHandover,    // it gives a joiner the stage's state, or is the joiner
  kCheckpoint,  // it keeps a state that the coordinator fetches
  kLast = kCheckpoint
};
inline constexpr int32_t kGridFaults = 1 + static_cast<int32_t>(GridFault::kLast);
inline constexpr int32_t kGridPhases = 1 + static_cast<int32_t>(GridPhase::kLast);
inline constexpr int32_t kGridCells = kGridFaults * kGridPhases;
inline constexpr int32_t kGridTimes = 20;

struct GridCell {
  GridFault fault = GridFault::kKill;
  GridPhase phase = GridPhase::kJoining;
  int32_t time = 0;
};
GridCell GridCellOf(uint64_t seed);
const char* NameOf(GridFault fault);  // "killed"
const char* NameOf(GridPhase phase);  // "landing"

SwarmRun DrawGridCell(uint64_t seed, const SwarmOutput& output);

}  // namespace skerry
