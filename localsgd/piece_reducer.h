// A replica as the reducer of some pieces of its stage, in a sharded round (docs/PROTOCOL.md).
//
// For each piece it sums the participants' messages exactly (round_mean.h) and compresses the mean
// on its way down with error feedback of its own, s:
//
//   y = mean + s        sum = C(y)        s ← y − D(sum)        C, D the down codec
//
// Law: Σ D(sum) + s = Σ mean over the rounds landed, to float32 rounding (the downlink's half of
// conservation). Reduce changes nothing: the same round is reduced again from the same s when its
// set of participants shrinks; s moves only when the round lands. s of a piece begins at zero
// wherever the piece goes: what its last reducer had not sent yet is lost with it, at most one
// residual of the pieces it held.
//
// Memory: 4 bytes per parameter of the pieces reduced so far, that is 4/R of the stage's for each
// of R replicas, and while it works two floats per parameter of a piece.
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

namespace skerry {

// Not thread-safe, copyable.
class PieceReducer {
 public:
  // `nominal_tokens` as in round_mean.h; `codecs` as in OuterReplicaOptions.
  PieceReducer(const OuterConfig& config, const PieceCut& cut, int64_t nominal_tokens = 0,
               std::shared_ptr<CodecBook> codecs = nullptr);

  // The sum of a piece over `messages`, in any order. `round` says of which codecs they are; where
  // there are no tables, all rounds are alike. InvalidArgument as RoundMean::Make, or the mean has
  // diverged.
  absl::StatusOr<Bytes> Reduce(int32_t piece, std::vector<RoundMessage> messages,
                               int64_t round = 0) const;

  // The round landed with that sum, which Reduce made of the same messages. InvalidArgument as
  // Reduce; then nothing has changed.
  absl::Status Land(int32_t piece, std::vector<RoundMessage> messages, std::span<const uint8_t> sum,
                    int64_t round = 0);

  // Of the messages of the last Land, in its order: whose a robust mode gave little or no weight to
  // (robust.h; norms are those of the piece). Empty without one.
  const std::vector<bool>& screened() const { return screened_; }

  // Other pieces are other reducers' from now on.
  void KeepOnly(const std::set<int32_t>& pieces);

  // s of a piece, empty before it landed.
  std::span<const float> residual(int32_t piece) const;
  int64_t HeldBytes() const;

 private:
  absl::StatusOr<std::vector<float>> Mean(int32_t piece, std::vector<RoundMessage> messages,
                                          int64_t round, std::vector<bool>* screened) const;
  std::vector<float> ResidualOrZeros(int32_t piece) const;

  PieceCut cut_;
  std::shared_ptr<CodecBook> codecs_;
  int64_t nominal_tokens_;
  RobustOptions robust_;
  std::vector<bool> screened_;
  std::map<int32_t, std::vector<float>> residuals_;  // s, by piece
};

}  // namespace skerry
