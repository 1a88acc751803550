// Pieces of a delta, or of a sum, on their way: some of a stage's pieces (localsgd/piece_cut.h) in
// one payload. Little-endian:
//
//   count u32 · count × (index u32, length u32) · the pieces' bytes
//
// What a reducer hands on (localsgd/piece_reducer.h) travels in a Delta too: of n pieces, index
// n + i is the left-over of piece i. One Delta holds either those or pieces of a delta.
//
// Indices ascend. Reading is total: any bytes give pieces or an error, and nothing is allocated for
// what is not there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"

namespace skerry {

struct Piece {
  int32_t index = 0;
  Payload message;
};

inline constexpr int32_t kPiecesMax = 1 << 16;  // of a stage

// Stands for as many bytes as its pieces do together (common/bytes.h).
Payload PackPieces(std::span<const Piece> pieces);

// The first index there, without looking at more; -1: none.
int32_t FirstIndexOf(const Payload& packed);

// InvalidArgument: not what PackPieces makes.
absl::StatusOr<std::vector<Piece>> UnpackPieces(const Payload& packed);

}  // namespace skerry
