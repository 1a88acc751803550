// Ladder residual where devices share the tensors of every layer: their sums are made while they
// compute, and are the same.
#include <latch>

#include "bench/forwarding_group.h"
#include "common/status.h"
#include "model/tensor_split.h"
#include "tests/kernels/members.h"
#include "tests/model/counting_backend.h"
#include "tests/model/split_stages.h"

namespace skerry {
namespace {

constexpr size_t kDevices = 2;
constexpr size_t kSums = 12;  // of a pass either way: three ladders of two layers
constexpr MicrobatchKey kKey = {0, 0};

// Calls on_sum(i) before the sum that is the i-th since Restart.
class WatchedGroup final : public ForwardingGroup {
 public:
  using OnSum = std::function<absl::Status(size_t i)>;
  WatchedGroup(std::unique_ptr<Group> inner, OnSum on_sum)
      : ForwardingGroup(std::move(inner)), on_sum_(std::move(on_sum)) {}
  size_t sums() const { return sums_; }
  void Restart() { sums_ = 0; }
  absl::Status AllReduce(float* values, int64_t n) override {
    SKERRY_RETURN_IF_ERROR(on_sum_(sums_++));
    return ForwardingGroup::AllReduce(values, n);
  }

 private:
  OnSum on_sum_;
  size_t sums_ = 0;
};

// All layers of LadderSplitRun, on two devices over groups of the test's own.
class HandSplit {
 public:
  HandSplit(const RunConfig& config, Groups groups, bool hides, int32_t recomputed = 0)
      : config_(config), groups_(std::move(groups)) {
    const int32_t layers = config.model.layers;
    const auto split = *TensorSplit::Of(config, 0, layers, false, kDevices);
    std::vector<float> whole(static_cast<size_t>(split.whole().size()));
    Rng rng(3, "whole");
    for (float& value : whole) value = static_cast<float>(0.3 * rng.Normal());
    for (size_t i = 0; i < kDevices; ++i) {
      Member& m = members_[i];
      m.backend = std::make_unique<CountingBackend>(CreateReferenceBackend());
      if (hides) m.thread = std::make_unique<SumThread>(groups_[i].get());
      m.sum = std::make_unique<BranchSum>(groups_[i].get(), m.thread.get(), m.backend.get());
      DeviceShare share;
      share.tensors = {kDevices, static_cast<int32_t>(i)};
      share.sum = m.sum.get();
      m.trainer =
          *StageTrainer::Create(config, 0, layers, false, m.backend.get(), recomputed, share);
      split.Write(static_cast<int32_t>(i), *m.backend, whole, m.trainer->weights());
      m.trainer->WeightsChanged();
    }
    in_.resize(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
    for (float& value : in_) value = static_cast<float>(rng.Normal());
  }

  // What each device made of a pass: the stream, its gradient, the sums of gradients.
  using Made = std::vector<std::vector<float>>;
  struct Passed {
    std::vector<absl::Status> status;
    std::vector<Made> made;  // of those that ended well
  };
  Passed Pass(const std::function<void(size_t device)>& on_end = {}) {
    Passed passed{{}, std::vector<Made>(kDevices)};
    passed.status = OnThreads(kDevices, [&](size_t i) {
      const absl::Status done = PassOf(i, passed.made[i]);
      if (!done.ok()) {
        groups_[i]->Abort(done);
        members_[i].sum->EndAll();
      }
      if (on_end) on_end(i);
      return done;
    });
    return passed;
  }
  CountingBackend& backend(size_t i) { return *members_[i].backend; }
  Group& group(size_t i) { return *groups_[i]; }

  // Before the way back begins.
  std::function<void(size_t device)> between;

 private:
  struct Member {
    std::unique_ptr<CountingBackend> backend;
    std::unique_ptr<SumThread> thread;
    std::unique_ptr<BranchSum> sum;
    std::unique_ptr<StageTrainer> trainer;
  };

  absl::Status PassOf(size_t i, Made& made) {
    StageTrainer& trainer = *members_[i].trainer;
    made.assign(2, std::vector<float>(in_.size()));
    SKERRY_RETURN_IF_ERROR(trainer.Forward(kKey, in_, made[0]));
    if (between) between(i);
    SKERRY_RETURN_IF_ERROR(trainer.Backward(kKey, in_, made[1]));
    trainer.Accumulate(kKey);
    made.emplace_back(static_cast<size_t>(trainer.layout().size()));
    trainer.TakeGradients(made[2]);
    return absl::OkStatus();
  }

  RunConfig config_;
  Groups groups_;  // outlive what sums over them
  Member members_[kDevices];
  std::vector<float> in_;
};

void CheckOk(const HandSplit::Passed& passed) {
  for (const absl::Status& status : passed.status) {
    INFO(ErrorText(status));
    REQUIRE(status.ok());
  }
}

std::vector<HandSplit::Made> Undisturbed(const RunConfig& config) {
  HandSplit split(config, MakeThreadRing(kDevices), false);
  const auto passed = split.Pass();
  CheckOk(passed);
  return passed.made;
}

}  // namespace

TEST_CASE("LadderTeam: devices compute and train as one does, but for the rounding of sums",
          "[model][ladder]") {
  const auto devices = GENERATE(size_t{2}, size_t{4});
  RunConfig config = LadderSplitRun();
  config.model.qkv_bias = GENERATE(false, true);
  config.model.tied_head = config.model.qkv_bias;
  config.inner.optimizer = GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kSgd);
  if (config.inner.optimizer == InnerOptimizer::kSgd) config.inner.learning_rate = 0.03f;
  SplitStages one(config, 1), split(config, devices);
  REQUIRE(split.stage(1).devices() == static_cast<int32_t>(devices));
  const std::vector<float> initial = one.ParametersOf(1);

  CHECK(std::abs(one.Pass({9, 0}) - split.Pass({9, 0})) < 1e-5);
  CHECK(Furthest(one.out(), split.out()) < 1e-5);
  for (size_t i = 0; i < 2; ++i) {
    const auto of_one = one.TakeGradients(i), of_all = split.TakeGradients(i);
    CHECK(FurthestTensor(one.stage(i).layout(), of_one, of_all) < 1e-4);
  }
  CHECK(Furthest(one.Steps(0, 5), split.Steps(0, 5)) < 1e-5);
  for (size_t i = 0; i < 2; ++i) CHECK(Furthest(one.ParametersOf(i), split.ParametersOf(i)) < 2e-5);
  CHECK(Furthest(one.ParametersOf(1), initial) > 2e-4);
}

TEST_CASE("LadderTeam: in bf16 gradients are one device's within the type's rounding",
          "[model][ladder]") {
  RunConfig config = LadderSplitRun();
  config.inner.compute = InnerCompute::kBfloat16;
  const SplitKind bf16 = {[] { return CreateReferenceBackend(DType::kBfloat16); }};
  SplitStages one(config, 1, bf16), split(config, 2, bf16);
  CHECK(std::abs(one.Pass({0, 0}) - split.Pass({0, 0})) < 1e-2);
  for (size_t i = 0; i < 2; ++i) {
    const auto of_one = one.TakeGradients(i), of_all = split.TakeGradients(i);
    CHECK(FurthestTensor(one.stage(i).layout(), of_one, of_all) < 0.05);
  }
  split.Step(1);  // and norms stay equal
}

TEST_CASE("LadderTeam: the bits are the same from run to run, and what was saved goes on elsewhere",
          "[model][ladder]") {
  const RunConfig config = LadderSplitRun();
  SplitStages first(config, 4), second(config, 4);
  CHECK(first.Steps(0, 3) == second.Steps(0, 3));
  for (size_t i = 0; i < 2; ++i) CHECK(first.StateOf(i) == second.StateOf(i));
  SplitStages one(config, 1);
  for (size_t i = 0; i < 2; ++i) {
    const auto saved = first.StateOf(i);
    one.stage(i).WriteParameters(saved.parameters);
    REQUIRE(one.stage(i)
                .WriteMoments(first.stage(i).optimizer_steps(), saved.first, saved.second)
                .ok());
    CHECK(one.StateOf(i) == saved);
  }
  CHECK(Furthest(one.Step(3), first.Step(3)) < 1e-5);
}

TEST_CASE("LadderTeam: sums that are hidden have the bits of those that are not",
          "[model][ladder]") {
  const RunConfig config = LadderSplitRun();
  const auto waited_for = Undisturbed(config);
  const int32_t recomputed = GENERATE(0, 1, 6);
  for (int again = 0; again < 5; ++again) {
    HandSplit hidden(config, MakeThreadRing(kDevices), true, recomputed);
    const auto passed = hidden.Pass();
    CheckOk(passed);
    CHECK(passed.made == waited_for);
  }
}

TEST_CASE("LadderTeam: while sums are held up the devices go on, but where a stream is whole",
          "[model][ladder]") {
  const RunConfig config = LadderSplitRun();
  std::vector<WatchedGroup*> watched;
  HandSplit* stage = nullptr;
  std::vector<bool> is_back(kDevices);
  Groups groups;
  for (auto& ring : MakeThreadRing(kDevices)) {
    const size_t device = groups.size();
    auto group = std::make_unique<WatchedGroup>(std::move(ring), [&, device](size_t i) {
      // Of the last half of a ladder nothing is left forward, back the gradient of its weights; of
      // all others the products of the next half, too.
      const bool is_last = i % 4 == 3;
      const int products = is_back[device] ? (is_last ? 1 : 4) : (is_last ? 0 : 2);
      if (stage->backend(device).WaitForProducts(i, products)) return absl::OkStatus();
      return Aborted("sum %d: the device waits for it", i);
    });
    watched.push_back(group.get());
    groups.push_back(std::move(group));
  }
  HandSplit split(config, std::move(groups), true, GENERATE(0, 6));
  stage = &split;
  const auto restart = [&](size_t device) {
    watched[device]->Restart();
    split.backend(device).Restart();
  };
  split.between = [&](size_t device) {
    CHECK(watched[device]->sums() == kSums);
    restart(device);
    is_back[device] = true;
  };
  for (size_t device = 0; device < kDevices; ++device) restart(device);
  const auto passed = split.Pass();
  CheckOk(passed);
  for (const WatchedGroup* group : watched) CHECK(group->sums() == kSums);  // none made twice
  CHECK(passed.made == Undisturbed(config));
}

TEST_CASE("LadderTeam: a device that dies at any step of a sum ends the pass of the other",
          "[model][ladder][error]") {
  const RunConfig config = LadderSplitRun();
  const auto good = Undisturbed(config);
  const auto victim = GENERATE(size_t{0}, size_t{1});
  FaultyRing whole = MakeFaultyRing(kDevices, static_cast<int32_t>(victim), {}, kGroupPatience);
  HandSplit undisturbed(config, std::move(whole.groups), true);
  CheckOk(undisturbed.Pass());
  REQUIRE(whole.fault->calls >= static_cast<int>(2 * kSums));
  for (int call = 0; call < whole.fault->calls; call += 5) {
    INFO("call " << call << " of " << whole.fault->calls);
    FaultyRing ring = MakeFaultyRing(kDevices, static_cast<int32_t>(victim),
                                     {Fault::Kind::kDeath, call}, kGroupPatience);
    HandSplit split(config, std::move(ring.groups), true);
    const auto passed = split.Pass();
    CHECK_FALSE(passed.status[victim].ok());
    // Who had all that it needed from the dead may have ended well.
    const size_t other = 1 - victim;
    if (passed.status[other].ok()) CHECK(passed.made[other] == good[other]);
    CHECK_FALSE(split.Pass().status[other].ok());  // of no more use, and says so
  }
}

TEST_CASE("LadderTeam: a device that hangs is given up when patience ends",
          "[model][ladder][error]") {
  const RunConfig config = LadderSplitRun();
  const int call = GENERATE(0, 5, 31, 100);
  std::latch resumes(1);
  FaultyRing ring =
      MakeFaultyRing(kDevices, 1, {Fault::Kind::kStop, call, &resumes}, Duration::Millis(500));
  HandSplit split(config, std::move(ring.groups), true);
  const auto passed = split.Pass([&](size_t device) {
    if (device == 0) resumes.count_down();
  });
  INFO(ErrorText(passed.status[0]));
  CHECK(absl::IsDeadlineExceeded(passed.status[0]));
  CHECK_FALSE(passed.status[1].ok());
}

}  // namespace skerry
