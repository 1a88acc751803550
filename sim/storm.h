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

// Draws 12 and 14 of the swarm: steps of 1.5 to 3 s; of 1 to 2 s, so that who is cut off is more of
// them behind.
enum class StormPace : uint8_t { kUsual, kQuick };
SwarmRun DrawStorm(uint64_t seed, const SwarmOutput& output, StormPace pace);

}  // namespace skerry
