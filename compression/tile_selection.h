// Which values of a tile top-k keeps, and at what two magnitudes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "compression/loops.h"

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

using TileMaxima = std::array<uint32_t, kMaximaColumns>;

// Asks for the memory of the next tile bit by bit, in the pauses of this one's reading.
struct NextTile {
  const CodecLoops& loops;
  LoopSource at;

  void Fetch() {
    loops.fetch(at);
    at = at.At(static_cast<size_t>(kCodecBlock));
  }
};

// `u` is a tile of 1 to kTopKTile finite values, `maxima` its maxima by form_rows.
TileSelection SelectTile(const CodecLoops& loops, std::span<const float> u,
                         const TileMaxima& maxima, NextTile* next);

}  // namespace skerry
