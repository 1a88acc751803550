#include "localsgd/round_mean.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "compression/loops.h"

namespace skerry {

absl::StatusOr<RoundMean> RoundMean::Make(const Codec& codec, int64_t size,
                                          std::vector<RoundMessage> messages,
                                          int64_t nominal_tokens, const RobustOptions& robust) {
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
  RoundMean mean(&codec, size);
  mean.scale_ = share * kQuantum;
  std::vector<std::span<const uint8_t>> payloads;
  for (const RoundMessage& message : messages) payloads.push_back(message.payload);
  mean.Weigh(payloads, robust);
  return mean;
}

void RoundMean::Weigh(const std::vector<std::span<const uint8_t>>& payloads,
                      const RobustOptions& robust) {
  const auto count = static_cast<int64_t>(payloads.size());
  std::vector<int64_t> weights(payloads.size(), 1);
  if (robust.mode == OuterRobust::kTrim) {
    each_end_ = TrimmedAtEachEnd(count, robust.trim);
    trimmed_.emplace(*codec_, size_, payloads);
    screened_ = trimmed_->MostlyTrimmed(each_end_);
    scale_ = 1.0 / static_cast<double>(count - 2 * each_end_) * kQuantum;
    if (each_end_ == 0) trimmed_.reset();
  } else if (robust.mode != OuterRobust::kNone) {
    RobustWeights weighed = RobustMessages(*codec_, size_, payloads).Weigh(robust);
    weights = std::move(weighed.weights);
    screened_ = std::move(weighed.screened);
    const int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t{0});
    scale_ = 1.0 / static_cast<double>(total) * kQuantum;
  }
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (weights[i] > 0) messages_.push_back({weights[i], payloads[i]});
  }
}

void RoundMean::Tile(int64_t first, std::span<float> d) const {
  SKERRY_CHECK(static_cast<int64_t>(d.size()) <= kTile);
  std::array<int64_t, kTile> sum;
  const auto tile = std::span(sum).first(d.size());
  std::fill(tile.begin(), tile.end(), 0);
  if (trimmed_) trimmed_->TrimmedSum(first, each_end_, tile);
  for (size_t i = 0; i < messages_.size() && !trimmed_; ++i) {
    codec_->AccumulateRange(messages_[i].payload, size_, first, messages_[i].weight, tile);
  }
  BestLoops().scale_sum(sum.data(), d.size(), scale_, d.data());
}

}  // namespace skerry
