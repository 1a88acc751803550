// A replica as the reducer of some pieces of its stage, in a sharded round (docs/PROTOCOL.md).
//
// For each piece it sums the participants' messages exactly (round_mean.h) and compresses the mean
// on its way down with error feedback of its own, s:
//
//   y = mean + s        sum = C(y)        s ← y − D(sum)        C, D the down codec
//
// Law: Σ D(sum) + s = Σ mean over the rounds landed, to float32 rounding (the downlink's half of
// conservation). Reduce changes nothing: the same round is reduced again from the same s when its
// set of participants shrinks; s moves only when the round lands.
//
// A piece may go to another reducer: somebody dies, is absent, leaves, comes back. Who does not sum
// it any more hands on what it has left over, in messages of the down codec, and the new reducer
// adds that to its own s once its next round has landed, so that what a sum under way was made from
// stays what it was, for who checks it:
//
//   old reducer   msg = C(s)   s ← s − D(msg)   again after every round, until s is nothing;
//                 of who leaves for good in int8, unless C is as fine
//   new reducer   s' ← s' + D(msg)          after the next round, or when it hands on itself
//
// So Σ D(sum) + Σ s + Σ D(msg) under way = Σ mean, over all reducers, without weights: a mean is
// not touched. Only what a reducer held that is killed is lost, at most one residual of its pieces,
// and with a whole stage what all held: a checkpoint does not keep it (docs/decisions/0038).
//
// Memory: 4 bytes per parameter of the pieces it sums, that is 4/R of the stage's for each of R
// replicas, and of those that it hands on; while it works two floats per parameter of a piece.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/run_config.h"
#include "localsgd/codec_book.h"
#include "localsgd/piece_cut.h"
#include "localsgd/round_mean.h"
#include "wire/message/sum_message.h"

namespace skerry {

// Zero: nothing is left over.
Digest StateDigest(std::span<const float> s);

// Not thread-safe, copyable.
class PieceReducer {
 public:
  // `nominal_tokens` as in round_mean.h; `codecs` as in OuterReplicaOptions.
  PieceReducer(const OuterConfig& config, const PieceCut& cut, int64_t nominal_tokens = 0,
               std::shared_ptr<CodecBook> codecs = nullptr);

  // The sum of a piece over `messages`, in any order. `round` says of which codecs they are; where
  // there are no tables, all rounds are alike. `state`: s before and after it lands, for who checks
  // the sum (sum_proof.h); nullptr: nobody does. InvalidArgument as RoundMean::Make, or the mean
  // has diverged.
  absl::StatusOr<Bytes> Reduce(int32_t piece, std::vector<RoundMessage> messages, int64_t round = 0,
                               PieceState* state = nullptr) const;

  // The round landed with that sum, which Reduce made of the same messages. InvalidArgument as
  // Reduce; then nothing has changed.
  absl::Status Land(int32_t piece, std::vector<RoundMessage> messages, std::span<const uint8_t> sum,
                    int64_t round = 0);

  // Of the messages of the last Land, in its order: whose a robust mode gave little or no weight to
  // (robust.h; norms are those of the piece). Empty without one.
  const std::vector<bool>& screened() const { return screened_; }

  // What is left over of pieces that are not in `own`, for who sums them now: a message for each,
  // in order of pieces; its first byte says which codec it is of. It counts as handed on. Call it
  // again when the next round has landed: a coarse codec leaves something out. What is below 2^-20
  // of what there was at first is rounding, and forgotten. `own` is empty: this reducer goes.
  struct LeftOver {
    int32_t piece = 0;
    Bytes message;
  };
  std::vector<LeftOver> HandOn(const std::set<int32_t>& own);

  // The same, and nobody gets it: with robust modes, as a left-over is weighed by nobody.
  void KeepOnly(const std::set<int32_t>& own);

  // Whether such a message of another reducer can be taken over, and that. InvalidArgument: it is
  // none of that piece; then nothing has changed.
  absl::Status CheckLeftOver(int32_t piece, std::span<const uint8_t> message) const;
  absl::Status TakeOver(int32_t piece, std::span<const uint8_t> message);
  // What it adds, [size of the piece].
  absl::StatusOr<std::vector<float>> DecodeLeftOver(int32_t piece,
                                                    std::span<const uint8_t> message) const;

  // s of a piece and what was taken over since it landed; empty: neither.
  std::vector<float> LeftOverOf(int32_t piece) const;
  // s that a sum not landed yet was made from, as `state` named it. nullptr: it is gone.
  const std::vector<float>* ReducedFrom(int32_t piece, const Digest& before) const;
  // Goes on from that s, and nothing taken over: to follow what a reducer did. Empty: none.
  void Resume(int32_t piece, std::vector<float> residual);
  int64_t SizeOf(int32_t piece) const { return cut_.Size(piece); }
  int64_t HeldBytes() const;

 private:
  // s after `sum` of that mean lands.
  absl::StatusOr<std::vector<float>> After(int32_t piece, std::span<const float> mean,
                                           std::span<const uint8_t> sum, int64_t round) const;
  absl::StatusOr<std::vector<float>> Mean(int32_t piece, std::vector<RoundMessage> messages,
                                          int64_t round, std::vector<bool>* screened) const;
  std::vector<float> ResidualOrZeros(int32_t piece) const;
  void AddTakenOver(int32_t piece);
  enum class LeftOverForm : uint8_t { kDown, kInt8 };
  static constexpr size_t kFormBytes = 1;
  const Codec* LeftOverCodec(int32_t piece, LeftOverForm form) const;

  PieceCut cut_;
  std::shared_ptr<CodecBook> codecs_;
  int64_t nominal_tokens_;
  DeltaCodec down_;
  RobustOptions robust_;
  std::vector<bool> screened_;
  std::map<int32_t, std::vector<float>> residuals_;   // s, by piece
  std::map<int32_t, float> handing_on_;               // its largest value when that began
  std::map<int32_t, std::vector<float>> taken_over_;  // since landing, summed; not in s yet
};

}  // namespace skerry
