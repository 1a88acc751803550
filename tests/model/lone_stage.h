// A stage alone, with made-up streams in place of its neighbours.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "model/stage_team.h"
#include "tests/kernels/values.h"
#include "tests/model/tiny_run.h"

namespace skerry {

class LoneStage {
 public:
  void Forward(MicrobatchKey key) {
    if (!has_ends_) {
      REQUIRE(team_->Forward(key, Stream(key, "in"), out_).ok());
      return;
    }
    const TinyText text(config_, key);
    REQUIRE(team_->ForwardFirst(key, text.tokens, out_).ok());
    REQUIRE(team_->Loss(key, Stream(key, "back"), text.targets, out_).ok());
  }
  void Backward(MicrobatchKey key) {
    REQUIRE(team_->Backward(key, Stream(key, "gradient"), Into()).ok());
  }
  absl::Status BackwardPartOf(MicrobatchKey key, size_t part) {
    return team_->BackwardPartOf(key, part, Stream(key, "gradient"), Into());
  }
  // What the last pass sends on.
  const std::vector<float>& out() const { return out_; }
  StageTeam& team() { return *team_; }

 protected:
  LoneStage(RunConfig config, bool has_ends) : config_(std::move(config)), has_ends_(has_ends) {}
  std::vector<TeamDevice> Devices(size_t count, DType compute) {
    std::vector<TeamDevice> devices;
    for (size_t i = 0; i < count; ++i) {
      backends_.push_back(CreateCpuBackend(1, compute));
      devices.push_back({backends_.back().get()});
    }
    return devices;
  }
  void Have(absl::StatusOr<std::unique_ptr<StageTeam>> made) {
    REQUIRE(made.ok());
    team_ = *std::move(made);
    out_.resize(static_cast<size_t>(TokensPerMicrobatch(config_) * config_.model.hidden));
  }
  RunConfig config_;

 private:
  std::vector<float> Stream(MicrobatchKey key, const char* which) const {
    Rng rng(7, which, static_cast<uint64_t>(key.microbatch));
    std::vector<float> stream(out_.size());
    for (float& value : stream) value = static_cast<float>(rng.Uniform() - 0.5);
    return stream;
  }
  std::span<float> Into() { return has_ends_ ? std::span<float>() : std::span(out_); }

  bool has_ends_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<StageTeam> team_;
  std::vector<float> out_;
};

}  // namespace skerry
