// A storm: sixteen nodes, and something goes wrong every 1.25 s for ten minutes, on every role.
//
// Nobody stays away for good but who lies; at most six nodes are away or stand still at a time, but
// for now and then a whole stage, which dies at once: the run has checkpoints to go back to. When
// the storm is over the run must make all its steps, and its model be collected, under all
// checkers. Nobody may end by itself but for a full disk, or because the others say that it lies.
#pragma once

#include <cstdint>

#include "sim/swarm.h"

namespace skerry {

inline constexpr int32_t kStormNodes = 16;
inline constexpr int32_t kStormFaults = 480;
inline constexpr Duration kStormEvery = Duration::Millis(1250);

enum class StormKind : uint8_t {
  kUsual,    // draw 12: steps of 1.5 to 3 s
  kQuick,    // draw 14: of 1 to 2 s, so that who is cut off is more of them behind
  kNumbers,  // draw 15: real arithmetic in two stages of four to seven, all rounds sharded: nobody
             // lies, and nobody may be accused of it with success
  kFalseSums,  // draw 16: the same, and from some fault on one of them falsifies what it sums: it,
               // and nobody else, must be put out with a proof
  kFalseWork,  // draw 17: the same as 15, pipeline work is checked, and from some fault on one of
               // them sends on what comes as if it had worked on it: nobody else may be put out
  kScreened,   // draw 19: the same as 15 with means as robust as they are by default
  kClusters,   // draw 20: as 15 in four rooms of four, where replicas of a stage are cohorts
  kCohorts,  // draw 21: as 15 in two rooms of eight that the operator names, and cohorts that last
  kOverlap,  // draw 22: as 21, and sums are made while the next step computes
  kShardedRooms,   // draw 23: as 20 with sharded rounds; of every fourth seed only where enough
                   // speak
  kShardedCohorts  // draw 24: as 21 with sharded rounds; every other seed as 22
};
SwarmRun DrawStorm(uint64_t seed, const SwarmOutput& output, StormKind kind);

}  // namespace skerry
