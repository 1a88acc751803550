// Which values of a tile top-k keeps, and at what two magnitudes.
#pragma once

#include <array>
#include <cstdint>

#include "compression/loops.h"
#include "compression/tile_shape.h"

namespace skerry {

inline constexpr size_t kAheadOfTiles = 1536;
inline constexpr size_t kKeptPerLine = 4;  // of loops over what is kept

// Selects tile after tile of an array. What it keeps follows from the tile alone; how fast it finds
// it, from the tile before: about so much as that one's least is guessed to be enough.
class TileSelector {
 public:
  // From `source` on.
  TileSelector(const CodecLoops& loops, const LoopSource& source)
      : loops_(loops), ahead_(source, kAheadOfTiles) {}

  // The tile of `size` ≥ 1 values at `source`, which follows the one before. False: one of them is
  // void.
  bool Select(const LoopSource& source, size_t size, TileSelection* out);

  // For what is done with the selection.
  ReadAhead* ahead() { return &ahead_; }

 private:
  struct Candidates {
    std::array<uint16_t, kTopKTile + kPlacesSlack> places;
    std::array<uint32_t, kTopKTile> magnitudes;
    size_t size = 0;
  };

  void Collect(size_t size);
  // Keeps the k largest, all of which reach `floor`, of equal ones the first; returns the least.
  uint32_t Narrow(size_t k, uint32_t floor);
  void FindLevels(uint32_t least, TileSelection* out);

  const CodecLoops& loops_;
  ReadAhead ahead_;
  uint32_t guess_ = 0;  // 0: none
  alignas(64) std::array<float, kTopKTile> u_;
  std::array<uint64_t, kTopKTile / 64> mask_;
  Candidates candidates_;
};

}  // namespace skerry
