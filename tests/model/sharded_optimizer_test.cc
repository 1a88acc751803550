// The inner optimizer of several devices: each steps a part, and all hold what a whole one makes.
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "kernels/group/ring_group.h"
#include "model/sequence_team.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

// Clips in every step; sequences so that devices have unequal shares.
RunConfig Run(InnerOptimizer optimizer, InnerCompute compute = InnerCompute::kFloat32) {
  RunConfig config = TinyRun();
  config.inner.optimizer = optimizer;
  config.inner.compute = compute;
  config.inner.clip_norm = 0.05f;
  config.pipeline.sequences_per_microbatch = 5;
  return config;
}

std::vector<std::unique_ptr<Backend>> Backends(const RunConfig& config, size_t devices) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (size_t i = 0; i < devices; ++i)
    backends.push_back(CreateCpuBackend(1, ComputeTypeOf(config.inner)));
  return backends;
}

struct State {
  std::vector<float> parameters, first, second;
  bool operator==(const State&) const = default;
};

// What it is held to: every device all-reduces all gradients, keeps all moments, steps everything.
class WholeOptimizers {
 public:
  WholeOptimizers(const RunConfig& config, size_t devices)
      : config_(config), backends_(Backends(config, devices)) {
    const int32_t all = config.pipeline.sequences_per_microbatch;
    const auto shares = ShareSequences(all, std::vector<double>(devices, 1));
    for (size_t i = 0; i < devices; ++i) {
      RunConfig own = config;
      own.pipeline.sequences_per_microbatch = shares[i];
      auto made = StageTrainer::Create(own, 0, config.model.layers, true, backends_[i].get(), 0,
                                       {all, std::nullopt});
      REQUIRE(made.ok());
      trainers_.push_back(*std::move(made));
      shares_.push_back(shares[i]);
    }
    ring_ = MakeThreadRing(static_cast<int32_t>(devices));
  }

  void Pass(MicrobatchKey key, const TinyText& text) {
    size_t at = 0;
    for (size_t i = 0; i < trainers_.size(); ++i) {
      const auto tokens = static_cast<size_t>(shares_[i] * config_.model.context);
      const std::span<const int32_t> in(text.tokens), out(text.targets);
      std::vector<float> stream(tokens * static_cast<size_t>(config_.model.hidden));
      std::vector<float> gradient(stream.size());
      REQUIRE(trainers_[i]->ForwardFirst(key, in.subspan(at, tokens), stream).ok());
      REQUIRE(trainers_[i]->Loss(key, stream, out.subspan(at, tokens), gradient).ok());
      REQUIRE(trainers_[i]->Backward(key, gradient, {}).ok());
      trainers_[i]->Accumulate(key);
      at += tokens;
    }
  }
  void Step(int64_t step, int32_t microbatches) {
    std::vector<std::thread> threads;
    std::vector<absl::Status> done(trainers_.size());
    for (size_t i = 0; i < trainers_.size(); ++i) {
      threads.emplace_back([&, i] {
        StageTrainer& trainer = *trainers_[i];
        done[i] = ring_[i]->AllReduce(trainer.gradient_sum(), trainer.layout().size());
        if (done[i].ok()) done[i] = trainer.OptimizerStep(step, microbatches);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : done) REQUIRE(status.ok());
  }
  State Now() {
    State state;
    state.parameters.resize(static_cast<size_t>(trainers_[0]->layout().size()));
    trainers_[0]->ReadParameters(state.parameters);
    const StageOptimizer& optimizer = trainers_[0]->optimizer();
    state.first.resize(static_cast<size_t>(optimizer.moments()));
    state.second.resize(state.first.size());
    optimizer.ReadMoments(state.first, state.second);
    return state;
  }

 private:
  RunConfig config_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<StageTrainer>> trainers_;
  std::vector<int32_t> shares_;
  std::vector<std::unique_ptr<Group>> ring_;
};

class Team {
 public:
  Team(const RunConfig& config, size_t devices)
      : config_(config), backends_(Backends(config, devices)) {
    std::vector<TeamDevice> team;
    for (const auto& backend : backends_) team.push_back({backend.get()});
    auto made = StageTeam::Create(config, {0, config.model.layers, true, 0}, team);
    REQUIRE(made.ok());
    stage_ = *std::move(made);
  }
  void Pass(MicrobatchKey key, const TinyText& text) {
    std::vector<float> stream(text.tokens.size() * static_cast<size_t>(config_.model.hidden));
    std::vector<float> gradient(stream.size());
    REQUIRE(stage_->ForwardFirst(key, text.tokens, stream).ok());
    REQUIRE(stage_->Loss(key, stream, text.targets, gradient).ok());
    REQUIRE(stage_->Backward(key, gradient, {}).ok());
    stage_->Accumulate(key);
  }
  void Step(int64_t step, int32_t microbatches) {
    REQUIRE(stage_->OptimizerStep(step, microbatches).ok());
    REQUIRE(stage_->CheckEqual().ok());
  }
  State Now() {
    State state;
    state.parameters.resize(static_cast<size_t>(stage_->layout().size()));
    stage_->ReadParameters(state.parameters);
    state.first.resize(static_cast<size_t>(stage_->moments()));
    state.second.resize(state.first.size());
    stage_->ReadMoments(state.first, state.second);
    return state;
  }
  StageTeam& stage() { return *stage_; }

 private:
  RunConfig config_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<StageTeam> stage_;
};

template <typename Stage>
void TrainOneStep(const RunConfig& config, int64_t step, Stage& stage) {
  const int32_t microbatches = config.pipeline.microbatches_per_step;
  for (int32_t m = 0; m < microbatches; ++m) {
    const MicrobatchKey key{step, m};
    stage.Pass(key, TinyText(config, key));
  }
  stage.Step(step, microbatches);
}

}  // namespace

TEST_CASE("StageTeam: a sharded optimizer leaves the bits that a whole one does", "[model]") {
  const auto optimizer =
      GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kMuon, InnerOptimizer::kSgd);
  const auto compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  const auto devices = GENERATE(size_t{1}, size_t{2}, size_t{3}, size_t{4});
  INFO(devices << " devices, optimizer " << static_cast<int>(optimizer) << ", type "
               << static_cast<int>(compute));
  const RunConfig config = Run(optimizer, compute);
  WholeOptimizers whole(config, devices);
  Team sharded(config, devices);
  const State before = sharded.Now();
  CHECK(before == whole.Now());
  for (int64_t step = 0; step < 4; ++step) {
    TrainOneStep(config, step, whole);
    TrainOneStep(config, step, sharded);
    const State now = sharded.Now(), expected = whole.Now();
    CHECK(now.parameters == expected.parameters);
    CHECK(now.first == expected.first);
    CHECK(now.second == expected.second);
  }
  CHECK(sharded.Now().parameters != before.parameters);
}

TEST_CASE("StageTeam: moments that were read and written go on as they were, on any devices",
          "[model]") {
  const RunConfig config = Run(GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kMuon));
  Team first(config, 3), second(config, 3);
  for (int64_t step = 0; step < 2; ++step) TrainOneStep(config, step, first);
  const State saved = first.Now();
  second.stage().WriteParameters(saved.parameters);
  REQUIRE(
      second.stage().WriteMoments(first.stage().optimizer_steps(), saved.first, saved.second).ok());
  CHECK(second.Now() == saved);

  TrainOneStep(config, 2, first);
  TrainOneStep(config, 2, second);

  CHECK(first.Now() == second.Now());
  Team other(config, 2);
  REQUIRE(other.stage().WriteMoments(2, saved.first, saved.second).ok());
  CHECK(other.Now().first == saved.first);
  CHECK(other.Now().second == saved.second);
}

TEST_CASE("StageTeam: all devices together hold the moments once", "[model]") {
  const RunConfig adamw = Run(InnerOptimizer::kAdamW), sgd = Run(InnerOptimizer::kSgd);
  Team with(adamw, 4), without(sgd, 4);
  const int64_t moments = 2 * 4 * with.stage().layout().size();
  CHECK(with.stage().HeldBytes() - without.stage().HeldBytes() == moments);
}

TEST_CASE("StageTeam: a gradient that is not finite changes nothing, and the next step is made",
          "[model][error]") {
  const RunConfig config = Run(InnerOptimizer::kAdamW);
  Team team(config, 3);
  TrainOneStep(config, 0, team);
  State before = team.Now();
  const std::vector<float> good = before.parameters;
  const float bad = GENERATE(std::numeric_limits<float>::infinity(), NAN);
  std::vector<float> poisoned = good;
  poisoned.back() = bad;
  team.stage().WriteParameters(poisoned);
  team.Pass({1, 0}, TinyText(config, {1, 0}));
  team.stage().WriteParameters(good);

  CHECK(absl::IsInvalidArgument(team.stage().OptimizerStep(1, 1)));

  CHECK(team.Now() == before);
  TrainOneStep(config, 2, team);
  CHECK(team.Now().parameters != good);
}

TEST_CASE("StageTeam: moments of another length are refused", "[model][error]") {
  Team team(Run(InnerOptimizer::kAdamW), 2);
  const std::vector<float> right(static_cast<size_t>(team.stage().moments()));
  const std::span<const float> less = std::span<const float>(right).first(right.size() - 1);
  CHECK(absl::IsInvalidArgument(team.stage().WriteMoments(1, less, right)));
  CHECK(absl::IsInvalidArgument(team.stage().WriteMoments(1, right, less)));
  CHECK(team.stage().WriteMoments(1, right, right).ok());
}

TEST_CASE("OptimizerParts: all there is, in order, Muon's with ends between tensors", "[model]") {
  const auto optimizer = GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kMuon);
  const int32_t devices = GENERATE(1, 2, 3, 8, 64);
  const RunConfig config = TinyRun();
  const auto layout = ParameterLayout::ForModel(config.model);
  InnerConfig inner;
  inner.optimizer = optimizer;
  const auto parts = OptimizerParts(inner, layout, devices);
  REQUIRE(std::ssize(parts) == devices);
  int64_t first = 0;
  for (const GroupPart& part : parts) {
    CHECK(part.first == first);
    CHECK(part.size >= 0);
    first += part.size;
    bool between = first == layout.size();
    for (const TensorSlot& slot : layout.tensors()) between = between || slot.offset == first;
    if (optimizer == InnerOptimizer::kMuon) CHECK(between);
    if (optimizer == InnerOptimizer::kAdamW) CHECK(part.size <= layout.size() / devices + 1);
  }
  CHECK(first == layout.size());
}

}  // namespace skerry
