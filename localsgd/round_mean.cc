#include "localsgd/round_mean.h"

#include <array>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "compression/loops.h"

namespace skerry {

absl::StatusOr<RoundMean> RoundMean::Make(const Codec& codec, int64_t size,
                                          std::vector<RoundMessage> messages,
                                          int64_t nominal_tokens) {
  const auto count = static_cast<int64_t>(messages.size());
  if (count < 1 || count > kRoundMessagesMax) {
    return InvalidArgument("round: want 1 to %d messages, got %d", kRoundMessagesMax, count);
  }
  SKERRY_CHECK(nominal_tokens >= 0 && nominal_tokens <= kMessageTokensMax);
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    const RoundMessage& message = messages[static_cast<size_t>(i)];
    if (message.tokens < 0 || message.tokens > kMessageTokensMax) {
      return InvalidArgument("participant %d: want 0 to %d tokens, got %d", i, kMessageTokensMax,
                             message.tokens);
    }
    const absl::Status checked = codec.Check(message.payload, size);
    if (!checked.ok()) return Annotate(checked, absl::StrFormat("participant %d", i));
    tokens += message.tokens;
  }
  if (nominal_tokens > 0 && tokens == 0) {
    return InvalidArgument("round: no participant covers any token");
  }
  const double share = nominal_tokens > 0
                           ? static_cast<double>(nominal_tokens) / static_cast<double>(tokens)
                           : 1.0 / static_cast<double>(count);
  return RoundMean(&codec, size, std::move(messages), share * kQuantum);
}

void RoundMean::Tile(int64_t first, std::span<float> d) const {
  SKERRY_CHECK(static_cast<int64_t>(d.size()) <= kTile);
  std::array<int64_t, kTile> sum;
  const auto tile = std::span(sum).first(d.size());
  std::fill(tile.begin(), tile.end(), 0);
  for (const RoundMessage& message : messages_) {
    codec_->AccumulateRange(message.payload, size_, first, 1, tile);
  }
  BestLoops().scale_sum(sum.data(), d.size(), scale_, d.data());
}

}  // namespace skerry
