// Stages of a tiny model whose layers' tensors devices share.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "model/stage_team.h"
#include "tests/model/tiny_run.h"

namespace skerry {

// Four groups of two heads; clips in every step.
inline RunConfig SplitRun() {
  RunConfig config = TinyRun();
  config.model.hidden = 32;
  config.model.heads = 8;
  config.model.kv_heads = 4;
  config.model.ffn = 20;
  config.inner.clip_norm = 0.05f;
  config.pipeline.sequences_per_microbatch = 3;
  config.pipeline.microbatches_per_step = 2;
  return config;
}

struct SplitKind {
  std::function<std::unique_ptr<Backend>()> backend = [] { return CreateCpuBackend(1); };
  bool has_host = false;
  StashParking parking_of_last = {};
};

// Of one ladder and of two.
inline RunConfig LadderSplitRun() {
  RunConfig config = SplitRun();
  config.model.layers = 6;
  config.model.ladder = 2;
  return config;
}

// Two stages of a tiny model, of two layers and of the others, each on so many devices, a layer of
// each recomputed.
class SplitStages {
 public:
  SplitStages(const RunConfig& config, size_t devices, const SplitKind& kind = {})
      : config_(config) {
    constexpr DeviceSplit kTensors = DeviceSplit::kTensors;
    for (const TeamStage& part : {TeamStage{0, 2, true, 1, kTensors},
                                  TeamStage{2, config.model.layers, false, 1, kTensors}}) {
      std::vector<TeamDevice> team;
      for (size_t i = 0; i < devices; ++i) {
        backends_.push_back(kind.backend());
        team.push_back({backends_.back().get()});
        if (kind.has_host) team.back().host = backends_.emplace_back(CreateCpuBackend(1)).get();
      }
      if (!part.holds_ends) team.back().parking = kind.parking_of_last;
      auto made = StageTeam::Create(config, part, team);
      REQUIRE(made.ok());
      stages_.push_back(*std::move(made));
    }
    floats_ = static_cast<size_t>(TokensPerMicrobatch(config_) * config_.model.hidden);
  }

  float Pass(MicrobatchKey key) {
    const TinyText text(config_, key);
    std::vector<float> first(floats_), gradient(floats_), between(floats_);
    out_.resize(floats_);
    REQUIRE(stages_[0]->ForwardFirst(key, text.tokens, first).ok());
    REQUIRE(stages_[1]->Forward(key, first, out_).ok());
    const auto loss = stages_[0]->Loss(key, out_, text.targets, gradient);
    REQUIRE(loss.ok());
    REQUIRE(stages_[1]->Backward(key, gradient, between).ok());
    REQUIRE(stages_[0]->Backward(key, between, {}).ok());
    for (const auto& stage : stages_) stage->Accumulate(key);
    return *loss;
  }
  // An inner step; the losses of its microbatches.
  std::vector<float> Step(int64_t step) {
    std::vector<float> losses;
    for (int32_t m = 0; m < config_.pipeline.microbatches_per_step; ++m)
      losses.push_back(Pass({step, m}));
    for (const auto& stage : stages_) {
      REQUIRE(stage->OptimizerStep(step, config_.pipeline.microbatches_per_step).ok());
      REQUIRE(stage->CheckEqual().ok());
    }
    return losses;
  }
  std::vector<float> Steps(int64_t first, int64_t last) {
    std::vector<float> all;
    for (int64_t step = first; step < last; ++step) {
      const auto losses = Step(step);
      all.insert(all.end(), losses.begin(), losses.end());
    }
    return all;
  }

  std::vector<float> ParametersOf(size_t i) const {
    std::vector<float> values(static_cast<size_t>(stages_[i]->layout().size()));
    stages_[i]->ReadParameters(values);
    return values;
  }
  struct State {
    std::vector<float> parameters, first, second;
    bool operator==(const State&) const = default;
  };
  State StateOf(size_t i) const {
    State state = {ParametersOf(i), {}, {}};
    state.first.resize(static_cast<size_t>(stages_[i]->moments()));
    state.second.resize(state.first.size());
    stages_[i]->ReadMoments(state.first, state.second);
    return state;
  }
  std::vector<float> TakeGradients(size_t i) {
    std::vector<float> sums(static_cast<size_t>(stages_[i]->layout().size()));
    stages_[i]->TakeGradients(sums);
    return sums;
  }
  StageTeam& stage(size_t i) { return *stages_[i]; }
  const std::vector<float>& out() const { return out_; }  // of the last pass, the stream

 private:
  RunConfig config_;
  size_t floats_ = 0;
  std::vector<float> out_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<StageTeam>> stages_;
};

inline double Furthest(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

// Of every tensor, in parts of its largest value.
inline double FurthestTensor(const ParameterLayout& layout, const std::vector<float>& a,
                             const std::vector<float>& b) {
  double most = 0;
  for (const TensorSlot& slot : layout.tensors()) {
    double largest = 0, apart = 0;
    for (int64_t i = slot.offset; i < slot.offset + slot.size(); ++i) {
      const double x = a[static_cast<size_t>(i)], y = b[static_cast<size_t>(i)];
      largest = std::max(largest, std::abs(x));
      apart = std::max(apart, std::abs(x - y));
    }
    REQUIRE(largest > 0);
    most = std::max(most, apart / largest);
  }
  return most;
}

}  // namespace skerry
