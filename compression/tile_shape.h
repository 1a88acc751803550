// What a tile of the top-k code is made of; plain numbers, for CPU and GPU alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "compression/step_scale.h"

namespace skerry {

inline constexpr size_t kTopKTile = 4096;
inline constexpr size_t kTopKMax = 64;

// A tile of `count` values keeps so many.
constexpr size_t KeptOf(size_t count) {
  return (count + 63) / 64;
}

// Ratio codes. 0: the low level is zero and the high one the step; else the low level is the step
// and the high one the step times kRatios[code] / 4.
inline constexpr std::array<int32_t, 15> kRatios = {0,  5,  6,  7,  8,  9,  10, 12,
                                                    14, 16, 20, 24, 32, 48, 64};

struct TileSelection {
  std::array<uint16_t, kTopKMax> places;  // ascending; KeptOf(count) of them
  uint64_t high = 0;                      // bit j: value j is at the high level
  uint64_t minus = 0;
  uint8_t step = 0;   // code of step_scale.h
  uint8_t ratio = 0;  // in kRatios
};

// Low and high level of a tile in units.
constexpr std::array<int64_t, 2> LevelsOf(uint8_t step, uint8_t ratio) {
  constexpr std::array<int32_t, 15> ratios = kRatios;
  const int64_t units = StepUnits(step);
  if (ratio == 0) return {0, units};
  return {units, units / 4 * ratios[ratio]};
}

}  // namespace skerry
