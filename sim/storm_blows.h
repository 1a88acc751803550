// What a storm strikes with, and how often each of it: shares of all blows, by kind of storm.
//
// The order is part of what a seed means: change nothing of an older draw.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sim/storm.h"

namespace skerry {

enum class Blow : uint8_t {
  kRestart,
  kKill,
  kHiccup,
  kHang,
  kCutOff,
  kWay,
  kLink,
  kSlow,
  kDiskFull,
  kLeave,
  kCoordinatorDies,
  kCoordinatorHangs,
  kCoordinatorDiskFull,
  kClock,
  kStageDies,
  kLie
};
struct BlowShare {
  Blow blow;
  int32_t parts;
};
inline constexpr std::array kShares = {BlowShare{Blow::kRestart, 10},
                                       BlowShare{Blow::kKill, 4},
                                       BlowShare{Blow::kHiccup, 24},
                                       BlowShare{Blow::kHang, 3},
                                       BlowShare{Blow::kCutOff, 5},
                                       BlowShare{Blow::kWay, 16},
                                       BlowShare{Blow::kLink, 8},
                                       BlowShare{Blow::kSlow, 14},
                                       BlowShare{Blow::kDiskFull, 3},
                                       BlowShare{Blow::kLeave, 3},
                                       BlowShare{Blow::kCoordinatorDies, 4},
                                       BlowShare{Blow::kCoordinatorHangs, 2},
                                       BlowShare{Blow::kClock, 3},
                                       BlowShare{Blow::kCoordinatorDiskFull, 1},
                                       BlowShare{Blow::kStageDies, 1},
                                       BlowShare{Blow::kLie, 1}};

// Draws 21, 22 and 24: less of what takes somebody out of its cohort for good, more of what a
// cohort has to bear, and stages that die as a whole, after which the run has new ones.
inline constexpr std::array kSharesOfCohorts = {BlowShare{Blow::kRestart, 4},
                                                BlowShare{Blow::kKill, 2},
                                                BlowShare{Blow::kHiccup, 30},
                                                BlowShare{Blow::kHang, 3},
                                                BlowShare{Blow::kCutOff, 2},
                                                BlowShare{Blow::kWay, 14},
                                                BlowShare{Blow::kLink, 4},
                                                BlowShare{Blow::kSlow, 18},
                                                BlowShare{Blow::kDiskFull, 1},
                                                BlowShare{Blow::kLeave, 1},
                                                BlowShare{Blow::kCoordinatorDies, 4},
                                                BlowShare{Blow::kCoordinatorHangs, 2},
                                                BlowShare{Blow::kClock, 3},
                                                BlowShare{Blow::kCoordinatorDiskFull, 1},
                                                BlowShare{Blow::kStageDies, 4}};

inline bool HasTwoRooms(StormKind kind) {
  return kind == StormKind::kCohorts || kind == StormKind::kOverlap ||
         kind == StormKind::kShardedCohorts;
}

inline std::span<const BlowShare> SharesOf(StormKind kind) {
  if (HasTwoRooms(kind)) return kSharesOfCohorts;
  return kShares;
}

}  // namespace skerry
