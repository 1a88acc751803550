// Sampling text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rng.h"
#include "model/decoder.h"
#include "model/text_tokenizer.h"

namespace skerry {

struct SamplingConfig {
  int64_t tokens = 200;      // to generate, ≥ 0
  float temperature = 0.8f;  // ≥ 0; 0 takes the likeliest
  int32_t top_k = 40;        // ≥ 0; only the k likeliest, 0: all
  uint64_t seed = 1;
};

// One draw from softmax(logits / temperature) over the top k. Ties go to the lower token.
int32_t SampleToken(std::span<const float> logits, const SamplingConfig& sampling, Rng& rng);

using OnToken = std::function<void(int64_t done, int64_t all)>;

// Tokens that follow `prompt` (not empty). The model sees the last `context` tokens at every step,
// recomputed. The decoder's tokens_max must be at least its context. `on_token` is told of each.
absl::StatusOr<std::vector<int32_t>> GenerateTokens(Decoder& decoder,
                                                    std::span<const int32_t> prompt,
                                                    const SamplingConfig& sampling,
                                                    const OnToken& on_token = {});

// The same with a tokenizer; an empty prompt is a newline. The result excludes the prompt and may
// end inside a UTF-8 character. FailedPrecondition: its tokens are not the model's.
absl::StatusOr<std::string> GenerateText(Decoder& decoder, TextTokenizer& tokenizer,
                                         const std::string& prompt, const SamplingConfig& sampling,
                                         const OnToken& on_token = {});

}  // namespace skerry
