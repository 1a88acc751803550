// The pieces of a stage: what a sharded round sends, sums and reassigns as a whole.
//
// A piece is a run of parameters as long as the others but the last. Its length is a multiple of
// the largest tile of a codec, so what it is encoded as decodes to the bits that the message of the
// whole stage would. There are some pieces for each planned replica: enough that the part of a dead
// one can be spread over those that are left, but no more than leave pieces long enough for a
// matrix of low rank, whose columns' factor every piece repeats (compression/low_rank.h).
#pragma once

#include <algorithm>
#include <cstdint>

namespace skerry {

struct PieceCut {
  static constexpr int64_t kTile = 4096;
  static constexpr int64_t kPiecesEachMin = 2, kPiecesEachMax = 8;
  static constexpr int64_t kLongEnough = 1 << 17;

  int64_t parameters = 0;  // of the stage
  int64_t piece = 0;       // of a piece; > 0

  static PieceCut Of(int64_t parameters, int64_t replicas) {
    const int64_t each =
        std::clamp(parameters / (replicas * kLongEnough), kPiecesEachMin, kPiecesEachMax);
    const int64_t tiles = (parameters + kTile - 1) / kTile, wanted = each * replicas;
    return {parameters, std::max<int64_t>((tiles + wanted - 1) / wanted, 1) * kTile};
  }

  // At least one: of a fragment without parameters an empty one.
  int32_t count() const {
    return static_cast<int32_t>(std::max<int64_t>(1, (parameters + piece - 1) / piece));
  }
  int64_t First(int32_t index) const { return index * piece; }
  int64_t Size(int32_t index) const { return std::min(piece, parameters - First(index)); }
  int32_t IndexOf(int64_t parameter) const { return static_cast<int32_t>(parameter / piece); }
  bool operator==(const PieceCut&) const = default;
};

}  // namespace skerry
