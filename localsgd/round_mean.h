// The pseudo-gradient of a round: the mean over the accepted messages of a stage.
//
//   d = n̄ · Σ_c D(msg_c) / Σ_c n_c
//
// D(msg_c) is a *displacement*, base − θ, summed over the n_c tokens its message covers, not a mean
// per token: hence it is not multiplied by n_c. n̄ is the number of tokens a replica covers in an
// ordinary round. A message that carries two rounds of tokens counts as two, and the effective
// outer learning rate does not depend on attendance. With equal tokens n_c = n̄, and whenever
// n̄ = 0 (then the mean of the n_c is taken), d is the plain mean of the displacements.
//
// The sum is exact (compression/fixed_point.h), then one multiplication in double and one rounding
// to float32: d is the same bits for any order of the messages, on every machine. Nothing of size n
// is allocated: callers take d tile by tile.
//
// Robust modes (robust.h) give messages integer weights, or trim; they weigh no tokens.
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

struct RoundMessage {
  int64_t tokens = 0;                // in [0, kMessageTokensMax]; 0: no path led there
  std::span<const uint8_t> payload;  // not owned
};

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
  void Weigh(const std::vector<std::span<const uint8_t>>& payloads, const RobustOptions& robust);

  const Codec* codec_;
  int64_t size_;
  std::vector<Weighed> messages_;          // those of weight 0 left out
  double scale_ = 0;                       // n̄ · quantum / Σ n_c
  std::optional<RobustMessages> trimmed_;  // kTrim: all of them
  int64_t each_end_ = 0;                   // kTrim
  std::vector<bool> screened_;
};

}  // namespace skerry
