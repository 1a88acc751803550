#include "localsgd/round_mean.h"

#include <algorithm>
#include <array>
#include <cmath>
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
    if (message.rounds < 1 || message.rounds > kMessageRoundsMax) {
      return InvalidArgument("participant %d: want a message of 1 to %d rounds, got %d", i,
                             kMessageRoundsMax, message.rounds);
    }
    const absl::Status checked = codec.Check(message.payload, size);
    if (!checked.ok()) return Annotate(checked, absl::StrFormat("participant %d", i));
    tokens += message.tokens;
  }
  if (nominal_tokens > 0 && tokens == 0) {
    return InvalidArgument("round: no participant covers any token");
  }
  RoundMean mean(&codec, size);
  mean.Weigh(messages, nominal_tokens, robust);
  return mean;
}

std::vector<int64_t> TokenWeights(std::span<const RoundMessage> messages) {
  int64_t divisor = 0, most = 0, total = 0;
  for (const RoundMessage& message : messages) {
    divisor = std::gcd(divisor, message.tokens);
    most = std::max(most, message.tokens);
  }
  std::vector<int64_t> weights(messages.size(), 1);
  if (most == 0) return weights;
  for (size_t i = 0; i < messages.size(); ++i) {
    weights[i] = messages[i].tokens / divisor;
    total = std::min(total + weights[i], kMessageTokensMax);
  }
  if (total <= kWeightTotalMax) return weights;
  const auto largest = static_cast<double>(kWeightTotalMax / static_cast<int64_t>(weights.size()));
  for (size_t i = 0; i < messages.size(); ++i) {
    const double share =
        static_cast<double>(messages[i].tokens) / static_cast<double>(most) * largest;
    weights[i] = messages[i].tokens == 0 ? 0 : std::max<int64_t>(1, std::llround(share));
  }
  return weights;
}

// Fills in screened_; the weights.
std::vector<int64_t> RoundMean::Screen(const std::vector<RoundMessage>& messages, bool by_tokens,
                                       const RobustMessages& decoded, double limit) {
  std::vector<double> norms = decoded.Norms();
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < messages.size(); ++i) {
    norms[i] /= messages[i].rounds;
    if (by_tokens && messages[i].tokens == 0) norms[i] = 0;  // weighs nothing, measures nobody
    tokens.push_back(messages[i].tokens / messages[i].rounds);
  }
  RobustWeights screened = ScreenWeights(norms, limit);
  screened_ = screened.screened;
  if (!by_tokens) return screened.weights;
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] *= screened.weights[i];
  const std::vector<int64_t> believed = BelievedTokens(norms, tokens, limit);
  std::vector<RoundMessage> weighed = messages;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (believed[i] != tokens[i]) weighed[i].tokens = believed[i] * messages[i].rounds;
    if (screened_[i]) weighed[i].tokens = 0;
  }
  std::vector<int64_t> weights = TokenWeights(weighed);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] *= screened.weights[i];
  return weights;
}

void RoundMean::Weigh(const std::vector<RoundMessage>& messages, int64_t nominal_tokens,
                      const RobustOptions& robust) {
  std::vector<std::span<const uint8_t>> payloads;
  int64_t tokens = 0;
  for (const RoundMessage& message : messages) {
    payloads.push_back(message.payload);
    tokens += message.tokens;
  }
  const auto count = static_cast<int64_t>(payloads.size());
  std::vector<int64_t> weights(payloads.size(), 1);
  const auto share = [&](bool by_rounds) {
    int64_t total = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      total += weights[i] * (by_rounds ? messages[i].rounds : 1);
    }
    scale_ = 1.0 / static_cast<double>(total) * kQuantum;
  };
  if (robust.mode == OuterRobust::kTrim) {
    each_end_ = TrimmedAtEachEnd(count, robust.trim);
    trimmed_.emplace(*codec_, size_, payloads);
    screened_ = trimmed_->MostlyTrimmed(each_end_);
    scale_ = 1.0 / static_cast<double>(count - 2 * each_end_) * kQuantum;
    if (each_end_ == 0) trimmed_.reset();
  } else if (robust.mode == OuterRobust::kScreen) {
    const bool by_tokens = nominal_tokens == 0;
    weights = Screen(messages, by_tokens, RobustMessages(*codec_, size_, payloads), robust.limit);
    share(by_tokens);
  } else if (robust.mode == OuterRobust::kClip) {
    RobustWeights weighed = RobustMessages(*codec_, size_, payloads).ClipWeights(robust.limit);
    weights = std::move(weighed.weights);
    screened_ = std::move(weighed.screened);
    share(false);
  } else if (nominal_tokens > 0) {
    scale_ = static_cast<double>(nominal_tokens) / static_cast<double>(tokens) * kQuantum;
  } else {
    weights = TokenWeights(messages);
    share(true);
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
