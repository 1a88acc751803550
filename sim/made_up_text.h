// Training tokens made up from (seed, step, microbatch): a noisy repeating sequence that a tiny
// model can learn, for runs in virtual time that really train.
#pragma once

#include "common/rng.h"
#include "common/run_config.h"
#include "node/trained_stage.h"

namespace skerry {

class MadeUpText final : public TokenSource {
 public:
  explicit MadeUpText(RunConfig config) : config_(std::move(config)) {}

  // The next token is 5 · token + 3 of the last one, but one time in eight any.
  absl::Status Read(int64_t step, int32_t microbatch, std::span<int32_t> tokens,
                    std::span<int32_t> targets) override {
    Rng rng(config_.seed, "tokens",
            static_cast<uint64_t>(step) << 20 | static_cast<uint64_t>(microbatch));
    const auto context = static_cast<size_t>(config_.model.context);
    const auto vocab = static_cast<uint64_t>(config_.model.vocab);
    for (size_t begin = 0; begin < tokens.size(); begin += context) {
      uint64_t value = rng.Below(vocab);
      for (size_t i = 0; i < context; ++i) {
        tokens[begin + i] = static_cast<int32_t>(value);
        value = rng.Below(8) == 0 ? rng.Below(vocab) : (value * 5 + 3) % vocab;
        targets[begin + i] = static_cast<int32_t>(value);
      }
    }
    return absl::OkStatus();
  }

 private:
  RunConfig config_;
};

}  // namespace skerry
