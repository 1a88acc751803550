// How a joiner learns what the state of its stage is, and says who gave it something else
// (docs/PROTOCOL.md, 17; docs/decisions/0031-joining.md).
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace skerry {

// What the replicas of a stage have in common at a version, and what a donor has of its own, travel
// in chunks of so many bytes, the last of each shorter.
inline constexpr int64_t kStateChunkBytes = 256 << 10;

// replica → coordinator and joiner: I keep the state of base version `round` for who joins now; the
// digests of the chunks of what all replicas have in common have this digest. coordinator → joiner:
// the root that the replicas agree on. Zero: the sender does not have that version.
struct StateRoot {
  int32_t stage = 0;
  int64_t round = 0;
  Digest root;
  int64_t inner_steps = 0;  // that the sender's moments are of
  bool operator==(const StateRoot&) const = default;
};
// joiner → coordinator: `donor` gave something that is not of that root, and is asked no more.
struct StateRefuted {
  int32_t stage = 0;
  int64_t round = 0;
  NodeId donor;
  int64_t chunk = 0;  // −1: the list of chunks
  Digest digest;      // of what came
  bool operator==(const StateRefuted&) const = default;
};

}  // namespace skerry
