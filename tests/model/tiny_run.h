// A run small enough for exact comparisons, and stages of it chained in one process.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/rng.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/stage_trainer.h"

namespace skerry {

// Five layers, grouped-query attention, no size a multiple of a vector.
inline RunConfig TinyRun() {
  RunConfig config;
  config.seed = 11;
  config.steps = 20;
  config.model.vocab = 19;
  config.model.hidden = 24;
  config.model.layers = 5;
  config.model.heads = 4;
  config.model.kv_heads = 2;
  config.model.ffn = 21;
  config.model.context = 7;
  config.inner.warmup_steps = 2;
  config.pipeline.microbatches_per_step = 4;
  config.pipeline.sequences_per_microbatch = 2;
  return config;
}

inline int64_t TokensPerMicrobatch(const RunConfig& config) {
  return int64_t{config.pipeline.sequences_per_microbatch} * config.model.context;
}

// Made-up text: tokens of (step, microbatch), targets one further.
struct TinyText {
  std::vector<int32_t> tokens, targets;
  TinyText(const RunConfig& config, MicrobatchKey key) {
    Rng rng(config.seed, "tiny text",
            static_cast<uint64_t>(key.step * 1000) + static_cast<uint64_t>(key.microbatch));
    const auto next = [&] {
      return static_cast<int32_t>(rng.Below(static_cast<uint64_t>(config.model.vocab)));
    };
    for (int64_t i = 0; i < TokensPerMicrobatch(config); ++i) {
      tokens.push_back(next());
      targets.push_back(next());
    }
  }
};

// Stages whose layer ranges end at `borders`; stage 0 begins at layer 0 and holds the ends.
class ChainedStages {
 public:
  // Of every stage as many layers as it has, up to `recomputed`, keep only their input.
  ChainedStages(const RunConfig& config, const std::vector<int32_t>& borders, Backend* backend,
                int32_t recomputed = 0)
      : config_(config) {
    int32_t first = 0;
    for (const int32_t last : borders) {
      auto stage = StageTrainer::Create(config, first, last, stages_.empty(), backend,
                                        std::min(recomputed, last - first));
      REQUIRE(stage.ok());
      stages_.push_back(*std::move(stage));
      first = last;
    }
  }

  // Forward through all stages and the loss; leaves ∂loss/∂(last stage's output) in `gradient`.
  float ForwardAndLoss(MicrobatchKey key, std::vector<float>& gradient) {
    const TinyText text(config_, key);
    std::vector<float> stream(StreamFloats()), next(StreamFloats());
    REQUIRE(stages_[0]->ForwardFirst(key, text.tokens, stream).ok());
    for (size_t i = 1; i < stages_.size(); ++i) {
      REQUIRE(stages_[i]->Forward(key, stream, next).ok());
      stream.swap(next);
    }
    gradient.resize(StreamFloats());
    const auto loss = stages_[0]->Loss(key, stream, text.targets, gradient);
    REQUIRE(loss.ok());
    return *loss;
  }

  void Backward(MicrobatchKey key, std::vector<float> gradient) {
    std::vector<float> next(StreamFloats());
    for (size_t i = stages_.size(); i-- > 1;) {
      REQUIRE(stages_[i]->Backward(key, gradient, next).ok());
      gradient.swap(next);
    }
    REQUIRE(stages_[0]->Backward(key, gradient, {}).ok());
  }

  // One inner step; `order` is the order in which backward passes happen. Returns the losses.
  std::vector<float> Step(int64_t step, const std::vector<int32_t>& order) {
    std::vector<float> losses;
    std::vector<std::vector<float>> gradients(order.size());
    for (int32_t m = 0; m < static_cast<int32_t>(order.size()); ++m) {
      losses.push_back(ForwardAndLoss({step, m}, gradients[static_cast<size_t>(m)]));
    }
    for (const int32_t m : order) Backward({step, m}, gradients[static_cast<size_t>(m)]);
    for (const auto& stage : stages_) {
      for (int32_t m = 0; m < static_cast<int32_t>(order.size()); ++m) {
        stage->Accumulate({step, m});
      }
      REQUIRE(stage->OptimizerStep(step, static_cast<int32_t>(order.size())).ok());
    }
    return losses;
  }

  // All parameters in the order of the whole model.
  std::vector<float> ModelParameters() {
    const ParameterLayout model = ParameterLayout::ForModel(config_.model);
    std::vector<float> all(static_cast<size_t>(model.size()));
    for (const auto& stage : stages_) {
      std::vector<float> own(static_cast<size_t>(stage->layout().size()));
      stage->ReadParameters(own);
      CopyTensors(stage->layout(), own, model, all);
    }
    return all;
  }

  StageTrainer& stage(size_t i) { return *stages_[i]; }
  size_t StreamFloats() const {
    return static_cast<size_t>(TokensPerMicrobatch(config_) * config_.model.hidden);
  }

 private:
  RunConfig config_;
  std::vector<std::unique_ptr<StageTrainer>> stages_;
};

}  // namespace skerry
