// Messages of a sharded round: sums, what they were made of, and how another replica checks one
// (docs/PROTOCOL.md, "A sum is checked"; docs/decisions/0048-checked-sums.md).
//
// What a delta's sender sent a reducer to sum is named by one digest, that of the digests of the
// pieces, in order (PartDigest). Sender and reducer both say it to the coordinator before the round
// is frozen, so neither can say afterwards that it was something else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/ids.h"

namespace skerry {

struct Participant {
  NodeId node;
  int64_t tokens = 0;
  Digest digest;
  bool operator==(const Participant&) const = default;
};

// replica → every holder of its stage, in a sharded round: the encoded mean of the pieces that are
// its part, over the participants that `shape` stands for (pipeline/plan/round_shape.h).
struct DeltaSum {
  int32_t stage = 0;
  int64_t round = 0;
  uint64_t shape = 0;
  int64_t tokens = 0;  // covered by the reducer's own delta
  Digest digest;       // of payload
  Payload payload;
  int64_t plan_version = 0;
  NodeId sender = {};  // whose it is, where another passes it on; zero: of who sends this
  bool operator==(const DeltaSum& o) const;
};

// What a reducer has left over of a piece that it sums (localsgd/piece_reducer.h), before and after
// the round. Zero: nothing yet.
struct PieceState {
  int32_t piece = 0;
  Digest before, after;
  bool operator==(const PieceState&) const = default;
};

// What a participant sent and summed; empty where no sums are checked.
struct SumStatement {
  std::vector<Participant> sent;    // to each reducer, ordered by node: of whose tokens, PartDigest
  std::vector<Participant> summed;  // of each participant, ordered by node; the same
  std::vector<PieceState> states;   // of the pieces that it sums, ascending
  bool operator==(const SumStatement&) const = default;
};

// holder → coordinator: I hold the sums of all participants of this shape. A digest zero: what that
// one sent is no sum.
struct SumsHeld {
  int32_t stage = 0;
  int64_t round = 0;
  uint64_t shape = 0;
  std::vector<Participant> sums;  // ordered by node
  SumStatement statement = {};
  Signature signature = {};  // of StatedBytes; zero: unsigned
  bool operator==(const SumsHeld&) const = default;
};

// What `by` signs of it: everything but what it holds of others' sums, in one form.
Bytes StatedBytes(const NodeId& by, const SumsHeld& held);

// coordinator → reducer and checker, before the commit of that round: `reducer` shows `checker` how
// it came to its sums of some pieces. With it all that was said of them before they were drawn.
struct SumCheck {
  int32_t stage = 0;
  int64_t round = 0;
  uint64_t shape = 0;
  NodeId reducer, checker;
  std::vector<int32_t> drawn;       // pieces, ascending
  Digest sum;                       // of the payload of its DeltaSum
  std::vector<Participant> summed;  // as the participants said that they sent it
  std::vector<int32_t> covered;     // rounds in each one's message; empty: one each
  std::vector<PieceState> states;   // of all pieces that it sums
  bool operator==(const SumCheck&) const = default;
};
// reducer → checker: a proof that can be followed (localsgd/sum_proof.h). No payload: it has none.
struct SumShown {
  int32_t stage = 0;
  int64_t round = 0;
  Payload payload;
  bool operator==(const SumShown& o) const;
};
// What its payload holds (pipeline/exec/shown_sum.h).
struct ShownSum {
  struct Piece {
    Payload left_over;              // float32, what the reducer had before; empty: nothing
    std::vector<Payload> messages;  // of the participants, ordered by node
  };
  Payload sums;                // of its DeltaSum
  std::vector<Payload> parts;  // of each participant: the digests that PartDigest is of
  std::vector<Piece> drawn;    // as SumCheck::drawn
};
enum class SumVerdict : uint8_t {
  kTrue,
  kFalse,     // from what it said that it summed follows another sum
  kNotShown,  // what it showed is not what it said that it summed
  kLast = kNotShown
};
// checker → coordinator.
struct SumChecked {
  int32_t stage = 0;
  int64_t round = 0;
  NodeId reducer;
  SumVerdict verdict = SumVerdict::kTrue;
  bool operator==(const SumChecked&) const = default;
};
// replica → coordinator: it hands on what it has left over of these pieces; so what `to` has left
// over of them changes between rounds.
struct LeftOverSent {
  int32_t stage = 0;
  int64_t round = 0;
  NodeId to;
  std::vector<int32_t> pieces;
  bool operator==(const LeftOverSent&) const = default;
};

inline constexpr size_t kPieceStatesMax = 1 << 13;  // of one reducer, on the wire

// Of the digests of pieces, in order.
inline Digest PartDigest(std::span<const Digest> pieces) {
  Bytes all;
  for (const Digest& piece : pieces) all.insert(all.end(), piece.bytes.begin(), piece.bytes.end());
  return DigestOf(std::span<const uint8_t>(all));
}

}  // namespace skerry
