// Which values of a tile top-k keeps, and at what two magnitudes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "compression/loops.h"
#include "compression/tile_shape.h"

namespace skerry {

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
