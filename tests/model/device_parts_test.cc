// Devices that share sequences sum parts of a step's gradients beside its last backward pass.
#include <atomic>
#include <latch>
#include <mutex>

#include "bench/forwarding_group.h"
#include "common/status.h"
#include "model/sequence_team.h"
#include "tests/kernels/members.h"
#include "tests/model/lone_stage.h"

namespace skerry {
namespace {

constexpr int32_t kMicrobatches = 4;

struct Case {
  size_t devices;
  TeamStage stage = {0, 12, true, 0, DeviceSplit::kSequences, 1};
  InnerOptimizer optimizer = InnerOptimizer::kAdamW;
  InnerCompute compute = InnerCompute::kFloat32;
  int32_t ladder = 0;
};

// Calls `before` every sum, and `failed` after one that ended so.
struct Watch {
  std::function<void()> before = [] {}, failed = [] {};
};
class WatchedEnd final : public ForwardingGroup {
 public:
  WatchedEnd(std::unique_ptr<Group> inner, Watch watch)
      : ForwardingGroup(std::move(inner)), watch_(std::move(watch)) {}
  absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) override {
    watch_.before();
    absl::Status status = ForwardingGroup::ReduceScatterOf(values, n, range);
    if (!status.ok()) watch_.failed();
    return status;
  }

 private:
  Watch watch_;
};
Groups Watched(Groups ring, const Watch& watch) {
  for (auto& end : ring) end = std::make_unique<WatchedEnd>(std::move(end), watch);
  return ring;
}

struct State {
  std::vector<float> parameters, first, second, out;
  bool operator==(const State& other) const {
    return SameBits(parameters, other.parameters) && SameBits(first, other.first) &&
           SameBits(second, other.second) && SameBits(out, other.out);
  }
};

class Stage : public LoneStage {
 public:
  explicit Stage(const Case& of) : Stage(of, MakeThreadRing(static_cast<int32_t>(of.devices))) {}
  Stage(const Case& of, Groups ring) : LoneStage(TinyRun(), of.stage.holds_ends) {
    config_.model.layers = of.stage.last_layer;
    config_.model.ladder = of.ladder;
    config_.pipeline.sequences_per_microbatch = 5;  // unequal shares
    config_.inner.optimizer = of.optimizer;
    config_.inner.compute = of.compute;
    config_.inner.clip_norm = 0.05f;
    const auto groups = [&](std::span<Backend* const>) {
      GroupBeside beside;
      beside.ends = std::move(ring);
      return absl::StatusOr<GroupBeside>(std::move(beside));
    };
    Have(SequenceTeam::Create(config_, of.stage, Devices(of.devices, ComputeTypeOf(config_.inner)),
                              groups));
  }

  // The open step up to its last pass: one is accumulated, two wait for their turn.
  void Open(int64_t step) {
    for (int32_t m = 0; m < kMicrobatches; ++m) Forward({step, m});
    Backward({step, 0});
    team().Accumulate({step, 0});
    Backward({step, 3});
    Backward({step, 1});
  }
  void EndAtOnce(int64_t step) {
    Backward({step, 2});
    for (const int32_t m : {1, 2, 3}) team().Accumulate({step, m});
  }
  void EndInParts(int64_t step) {
    const std::vector<MicrobatchKey> keys = {{step, 1}, {step, 2}, {step, 3}};
    for (size_t part = 0; part < team().parts().size(); ++part) {
      REQUIRE(BackwardPartOf({step, 2}, part).ok());
      team().SumPart(part, keys);
    }
  }
  absl::Status OptimizerStep(int64_t step) { return team().OptimizerStep(step, kMicrobatches); }

  State Now() {
    State state;
    state.parameters.resize(static_cast<size_t>(team().layout().size()));
    team().ReadParameters(state.parameters);
    state.first.resize(static_cast<size_t>(team().moments()));
    state.second.resize(state.first.size());
    team().ReadMoments(state.first, state.second);
    state.out = out();
    return state;
  }
};

constexpr TeamStage kMiddle = {2, 12, false, 3, DeviceSplit::kSequences, 1};

}  // namespace

TEST_CASE("Device parts: the bits of a step are those of sums after the pass", "[model]") {
  const Case of =
      GENERATE(Case{1}, Case{2}, Case{3}, Case{4}, Case{4, kMiddle}, Case{2, kMiddle},
               Case{2, {0, 12, true, 5, DeviceSplit::kSequences, 1}},
               Case{3, kMiddle, InnerOptimizer::kAdamW, InnerCompute::kBfloat16},
               Case{4,
                    {0, 12, true, 0, DeviceSplit::kSequences, 1},
                    InnerOptimizer::kAdamW,
                    InnerCompute::kBfloat16},
               Case{4, kMiddle, InnerOptimizer::kMuon}, Case{3, kMiddle, InnerOptimizer::kSgd},
               Case{3,
                    {0, 12, true, 2, DeviceSplit::kSequences, 1},
                    InnerOptimizer::kMuon,
                    InnerCompute::kBfloat16},
               Case{2, kMiddle, InnerOptimizer::kAdamW, InnerCompute::kFloat32, 2},
               Case{3, {0, 12, true, 0}});  // all of a tiny stage is one part
  INFO(of.devices << " devices, ends " << of.stage.holds_ends << ", ladder " << of.ladder);
  Stage whole(of), parted(of);
  CHECK(parted.team().SumsParts() == (of.devices > 1));
  CHECK((parted.team().parts().size() > 1) == (of.stage.least_part == 1));
  for (int64_t step = 0; step < 3; ++step) {
    for (Stage* stage : {&whole, &parted}) stage->Open(step);
    whole.EndAtOnce(step);
    parted.EndInParts(step);
    for (Stage* stage : {&whole, &parted}) {
      REQUIRE(stage->OptimizerStep(step).ok());
      REQUIRE(stage->team().CheckEqual().ok());
    }
    CHECK(parted.Now() == whole.Now());
  }
  parted.Open(3);  // it may go on without
  parted.EndAtOnce(3);
  REQUIRE(parted.OptimizerStep(3).ok());
}

TEST_CASE("Device parts: no part of the pass waits for a sum, the optimizer waits for all",
          "[model]") {
  const Case of{3, kMiddle};
  Stage undisturbed(of);
  std::latch pass_is_over(1);
  std::atomic<int> sums = 0;
  Stage held(of, Watched(MakeThreadRing(3), {[&] {
                           pass_is_over.wait();
                           ++sums;
                         }}));
  for (Stage* stage : {&undisturbed, &held}) {
    stage->Open(0);
    stage->EndInParts(0);
  }
  CHECK(sums == 0);
  pass_is_over.count_down();
  REQUIRE(held.OptimizerStep(0).ok());
  CHECK(sums == 3 * 10);  // a layer each
  REQUIRE(undisturbed.OptimizerStep(0).ok());
  CHECK(held.Now() == undisturbed.Now());
}

TEST_CASE("Device parts: what is accumulated after the first part is the next step's", "[model]") {
  const Case of{2, kMiddle};
  Stage late(of), later(of);
  for (Stage* stage : {&late, &later}) {
    stage->Forward({0, 9});
    stage->Backward({0, 9});
    stage->Open(0);
    stage->EndInParts(0);
    if (stage == &late) stage->team().Accumulate({0, 9});
    REQUIRE(stage->OptimizerStep(0).ok());
    if (stage == &later) stage->team().Accumulate({0, 9});
    stage->Open(1);
    stage->EndInParts(1);
    REQUIRE(stage->OptimizerStep(1).ok());
  }
  CHECK(late.Now() == later.Now());
}

TEST_CASE("Device parts: a device that dies at any step of a sum is an error of the optimizer's",
          "[model][error]") {
  const Case of{3, kMiddle};
  const int32_t victim = GENERATE(0, 2);
  const bool in_parts = GENERATE(false, true);
  FaultyRing whole = MakeFaultyRing(3, victim, {}, kGroupPatience);
  const auto step = [&](Stage& stage, int64_t k) {
    stage.Open(k);
    in_parts ? stage.EndInParts(k) : stage.EndAtOnce(k);
    return stage.OptimizerStep(k);
  };
  Stage undisturbed(of, std::move(whole.groups));
  REQUIRE(step(undisturbed, 0).ok());
  REQUIRE(whole.fault->calls > 30);
  for (int call = 0; call < whole.fault->calls; call += 9) {
    INFO("call " << call << " of " << whole.fault->calls);
    FaultyRing ring = MakeFaultyRing(3, victim, {Fault::Kind::kDeath, call}, kGroupPatience);
    Stage stage(of, std::move(ring.groups));
    CHECK_FALSE(step(stage, 0).ok());
    CHECK_FALSE(step(stage, 1).ok());  // of no more use, and says so
  }
}

TEST_CASE("Device parts: a device that hangs in a sum is given up when patience ends",
          "[model][error]") {
  const int call = GENERATE(0, 7, 33);
  std::latch resumes(1);
  FaultyRing ring =
      MakeFaultyRing(3, 1, {Fault::Kind::kStop, call, &resumes}, Duration::Millis(500));
  std::once_flag others_failed;
  const Watch watch{[] {}, [&] { std::call_once(others_failed, [&] { resumes.count_down(); }); }};
  Stage stage({3, kMiddle}, Watched(std::move(ring.groups), watch));
  stage.Open(0);
  stage.EndInParts(0);
  const absl::Status status = stage.OptimizerStep(0);
  INFO(status.ToString());
  CHECK(absl::IsDeadlineExceeded(status));
}

}  // namespace skerry
