// The pseudo-gradient of a round: the mean over the accepted messages of a stage.
//
//   d = Σ_c w_c D(msg_c) / Σ_c w_c         w_c: the tokens n_c that the message covers
//
// D(msg_c) is a *displacement*, base − θ. In a pipeline every replica makes the same inner steps,
// each on the tokens whose paths led to it: a faster one has more, so its displacement is less
// noisy and weighs more; with one SGD step a round, d is the gradient step on all tokens alike. A
// replica that no path led to weighs nothing. Weights are integers of total at most
// kWeightTotalMax: exact as long as the tokens, divided by what they have in common, are that few,
// else rounded to about R / 1000 of the largest.
//
// With n̄ > 0 replicas make inner steps in proportion to their tokens instead, so that a
// displacement is a sum over n_c tokens already and is not multiplied by n_c:
//
//   d = n̄ · Σ_c D(msg_c) / Σ_c n_c         n̄: the tokens of a replica in an ordinary round
//
// A message that carries two rounds then counts as two, and the effective outer learning rate does
// not depend on attendance. With equal tokens n_c = n̄ both are the plain mean.
//
// The sum is exact (compression/fixed_point.h), then one multiplication in double and one rounding
// to float32: d is the same bits for any order of the messages, on every machine. Nothing of size n
// is allocated: callers take d tile by tile.
//
// Of the robust modes (robust.h) screen leaves out whole messages and bounds w_c; clip and trim
// weigh no tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/codec.h"
#include "compression/fixed_point.h"
#include "localsgd/robust.h"
#include "localsgd/robust_messages.h"

namespace skerry {

inline constexpr int64_t kRoundMessagesMax = kWeightTotalMax;
inline constexpr int64_t kMessageTokensMax = int64_t{1} << 50;
inline constexpr int32_t kMessageRoundsMax = 1 << 16;

struct RoundMessage {
  int64_t tokens = 0;                // in [0, kMessageTokensMax]; 0: no path led there
  std::span<const uint8_t> payload;  // not owned
  int32_t rounds = 1;                // that the message covers: more after an absence
};

// w_c, in the order of the messages; all 1 when nobody covers a token.
std::vector<int64_t> TokenWeights(std::span<const RoundMessage> messages);

// Immutable; refers to the codec and the payloads, which outlive it.
class RoundMean {
 public:
  // Tiles at most so long keep the sum in the first-level cache.
  static constexpr int64_t kTile = 1024;
  static_assert(kTile % kCodecBlock == 0);

  // Checks everything that can be wrong. InvalidArgument names the message's index.
  static absl::StatusOr<RoundMean> Make(const Codec& codec, int64_t size,
                                        std::vector<RoundMessage> messages, int64_t nominal_tokens,
                                        const RobustOptions& robust = {});

  // d[first …] for a tile of at most kTile values; `first` is a multiple of kCodecBlock.
  void Tile(int64_t first, std::span<float> d) const;

  // Of the messages in the order given: whose counts for nothing, or for less than half. Empty
  // without a robust mode.
  const std::vector<bool>& screened() const { return screened_; }

 private:
  struct Weighed {
    int64_t weight;
    std::span<const uint8_t> payload;
  };

  RoundMean(const Codec* codec, int64_t size) : codec_(codec), size_(size) {}
  void Weigh(const std::vector<RoundMessage>& messages, int64_t nominal_tokens,
             const RobustOptions& robust);
  std::vector<int64_t> Screen(const std::vector<RoundMessage>& messages, bool by_tokens,
                              const RobustMessages& decoded, double limit);

  const Codec* codec_;
  int64_t size_;
  std::vector<Weighed> messages_;          // those of weight 0 left out
  double scale_ = 0;                       // of the sum of units
  std::optional<RobustMessages> trimmed_;  // kTrim: all of them
  int64_t each_end_ = 0;                   // kTrim
  std::vector<bool> screened_;
};

}  // namespace skerry
