// Where the tiles of a variable-length message begin, without reading the tiles before.
//
// The message keeps one byte per tile from which the tile's length follows, and for every
// kTilesPerGroup-th tile but the first its offset in the payload (uint64, little-endian): at most
// 0.001 bit a value. `length_of(tile)` below is the length in bytes of a tile.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "common/status.h"

namespace skerry {

inline constexpr size_t kTilesPerGroup = 64;

constexpr size_t TileIndexBytes(size_t tiles) {
  return tiles == 0 ? 0 : (tiles - 1) / kTilesPerGroup * sizeof(uint64_t);
}

// For the writer, before each tile: notes where it begins.
inline void NoteTile(uint8_t* index, size_t tile, uint64_t offset) {
  if (tile == 0 || tile % kTilesPerGroup != 0) return;
  std::memcpy(index + (tile / kTilesPerGroup - 1) * sizeof(offset), &offset, sizeof(offset));
}

inline uint64_t GroupOffset(const uint8_t* index, size_t group) {
  uint64_t offset = 0;
  if (group > 0) std::memcpy(&offset, index + (group - 1) * sizeof(offset), sizeof(offset));
  return offset;
}

template <typename LengthOf>
uint64_t TileOffset(const uint8_t* index, size_t tile, LengthOf&& length_of) {
  const size_t group = tile / kTilesPerGroup;
  uint64_t offset = GroupOffset(index, group);
  for (size_t t = group * kTilesPerGroup; t < tile; ++t) offset += length_of(t);
  return offset;
}

// InvalidArgument unless the lengths give these offsets and fill the payload.
template <typename LengthOf>
absl::Status CheckTileIndex(const uint8_t* index, size_t tiles, uint64_t payload_bytes,
                            LengthOf&& length_of) {
  uint64_t offset = 0;
  for (size_t tile = 0; tile < tiles; ++tile) {
    const size_t group = tile / kTilesPerGroup;
    if (tile % kTilesPerGroup == 0 && GroupOffset(index, group) != offset) {
      return InvalidArgument("delta: tiles before group %d take %d bytes, its offset is %d", group,
                             offset, GroupOffset(index, group));
    }
    offset += length_of(tile);
  }
  if (offset == payload_bytes) return absl::OkStatus();
  return InvalidArgument("delta: its tiles take %d bytes, %d came", offset, payload_bytes);
}

}  // namespace skerry
