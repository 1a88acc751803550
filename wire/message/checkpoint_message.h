// How the coordinator is given the state of a stage at one version (docs/PROTOCOL.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace skerry {

// coordinator → replica: keep what "replica/STAGE" would be when the stage's base is of version
// `round` (of a stage without rounds: when that round would end). The next one replaces it.
struct CheckpointRequest {
  int32_t stage = 0;
  int64_t round = 0;
  bool at_once = false;  // what the base is now, whatever its version: `round` is 0
  bool operator==(const CheckpointRequest&) const = default;
};
// replica → coordinator: it is kept, and given as "checkpoint/STAGE/ROUND". Its chunks of
// kCheckpointChunkBytes, by digest, so that those known already need not be sent.
struct CheckpointState {
  int32_t stage = 0;
  int64_t round = 0;
  int64_t bytes = 0;  // −1: it was not kept, that version is past
  std::vector<Digest> chunks;
  bool operator==(const CheckpointState&) const = default;
};
inline constexpr int64_t kCheckpointChunkBytes = 4 << 20;
inline constexpr size_t kCheckpointChunksMax = 16384;  // of a stage: 64 GiB

}  // namespace skerry
