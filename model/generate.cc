#include "model/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

int32_t SampleToken(std::span<const float> logits, const SamplingConfig& sampling, Rng& rng) {
  SKERRY_CHECK(!logits.empty());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const size_t kept = sampling.temperature <= 0 ? 1
                      : sampling.top_k <= 0
                          ? order.size()
                          : std::min(order.size(), static_cast<size_t>(sampling.top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(),
                    likelier);
  if (kept == 1) return order[0];
  std::vector<double> weights(kept);
  const double best = logits[static_cast<size_t>(order[0])];
  for (size_t i = 0; i < kept; ++i) {
    const double logit = logits[static_cast<size_t>(order[i])];
    weights[i] = std::exp((logit - best) / sampling.temperature);
  }
  double left = rng.Uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[0];
}

absl::StatusOr<std::vector<int32_t>> GenerateTokens(Decoder& decoder,
                                                    std::span<const int32_t> prompt,
                                                    const SamplingConfig& sampling,
                                                    const OnToken& on_token) {
  if (prompt.empty()) return InvalidArgument("want a prompt of at least one token");
  if (!(sampling.temperature >= 0) || sampling.top_k < 0 || sampling.tokens < 0) {
    return InvalidArgument("temperature %g, top_k %d and tokens %d must not be negative",
                           sampling.temperature, sampling.top_k, sampling.tokens);
  }
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  std::vector<float> logits(static_cast<size_t>(decoder.config().vocab));
  const auto context = static_cast<size_t>(decoder.config().context);
  Rng rng(sampling.seed, "sampling");
  for (int64_t i = 0; i < sampling.tokens; ++i) {
    const auto seen = std::span<const int32_t>(text).last(std::min(context, text.size()));
    SKERRY_RETURN_IF_ERROR(decoder.NextLogits(seen, logits));
    if (!std::all_of(logits.begin(), logits.end(), [](float l) { return std::isfinite(l); })) {
      return FailedPrecondition("the model's logits are not finite: it has diverged");
    }
    text.push_back(SampleToken(logits, sampling, rng));
    if (on_token) on_token(i + 1, sampling.tokens);
  }
  text.erase(text.begin(), text.begin() + static_cast<int64_t>(prompt.size()));
  return text;
}

absl::StatusOr<std::string> GenerateText(Decoder& decoder, TextTokenizer& tokenizer,
                                         const std::string& prompt, const SamplingConfig& sampling,
                                         const OnToken& on_token) {
  if (tokenizer.vocab() > decoder.config().vocab) {
    return FailedPrecondition("the tokenizer has %d tokens, the model %d", tokenizer.vocab(),
                              decoder.config().vocab);
  }
  const std::vector<int32_t> start = tokenizer.Encode(prompt.empty() ? "\n" : prompt);
  SKERRY_ASSIGN_OR_RETURN(const auto tokens, GenerateTokens(decoder, start, sampling, on_token));
  return tokenizer.Decode(tokens);
}

}  // namespace skerry
