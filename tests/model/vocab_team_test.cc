// Devices that share embedding and head by the vocabulary: together they are one.
#include <cmath>

#include "bench/forwarding_backend.h"
#include "common/status.h"
#include "model/tensor_split.h"
#include "tests/kernels/members.h"
#include "tests/model/split_stages.h"

namespace skerry {
namespace {

constexpr MicrobatchKey kKey = {0, 0};

// Has no more memory, once it is told.
class FullBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool is_full = false;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t floats) override {
    if (is_full) return ResourceExhausted("no memory for %d floats", floats);
    return ForwardingBackend::Allocate(floats);
  }
};

// Embedding and head of a model, all of a stage, on so many devices.
struct Ends {
  explicit Ends(const RunConfig& config, size_t devices)
      : text(config, kKey),
        out(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden)),
        d_in(out.size()) {
    std::vector<TeamDevice> team;
    for (size_t i = 0; i < devices; ++i) {
      backends.push_back(std::make_unique<FullBackend>(CreateCpuBackend(1)));
      team.push_back({backends.back().get()});
    }
    stage = *StageTeam::Create(config, {0, 0, true, 0, DeviceSplit::kTensors}, team);
    REQUIRE(stage->devices() == static_cast<int32_t>(devices));
  }
  absl::Status Embed() { return stage->ForwardFirst(kKey, text.tokens, out); }
  absl::StatusOr<float> Loss() { return stage->Loss(kKey, out, text.targets, d_in); }
  std::vector<float> Gradients() {
    REQUIRE(stage->Backward(kKey, d_in, {}).ok());
    stage->Accumulate(kKey);
    std::vector<float> sums(static_cast<size_t>(stage->layout().size()));
    stage->TakeGradients(sums);
    return sums;
  }
  std::vector<float> Parameters() {
    std::vector<float> values(static_cast<size_t>(stage->layout().size()));
    stage->ReadParameters(values);
    return values;
  }

  TinyText text;
  std::vector<float> out, d_in;
  std::vector<std::unique_ptr<FullBackend>> backends;
  std::unique_ptr<StageTeam> stage;
};

// Devices with embedding and head over groups of the test's own; what each made of a microbatch.
using Made = std::vector<std::vector<float>>;
struct Passed {
  std::vector<absl::Status> status;
  std::vector<Made> made;
};
Passed PassOver(const RunConfig& config, Groups& groups) {
  const TinyText text(config, kKey);
  const auto devices = static_cast<int32_t>(groups.size());
  const auto split = *TensorSplit::Of(config, 0, 0, true, devices);
  const std::vector<float> whole = Normals(split.whole().size(), "whole");
  Passed passed{{}, std::vector<Made>(groups.size())};
  const auto pass = [&](size_t i) -> absl::Status {
    const auto backend = CreateReferenceBackend();
    BranchSum sum(groups[i].get());
    DeviceShare share;
    share.tensors = {devices, static_cast<int32_t>(i)};
    share.sum = &sum;
    const auto trainer = *StageTrainer::Create(config, 0, 0, true, backend.get(), 0, share);
    split.Write(share.tensors.rank, *backend, whole, trainer->weights());
    trainer->WeightsChanged();
    std::vector<float> stream(static_cast<size_t>(text.tokens.size()) *
                              static_cast<size_t>(config.model.hidden));
    SKERRY_RETURN_IF_ERROR(trainer->ForwardFirst(kKey, text.tokens, stream));
    passed.made[i].push_back(stream);
    SKERRY_ASSIGN_OR_RETURN(const float loss, trainer->Loss(kKey, stream, text.targets, stream));
    passed.made[i].push_back(stream);
    passed.made[i].push_back({loss});
    return absl::OkStatus();
  };
  passed.status = OnThreads(groups.size(), [&](size_t i) {
    const absl::Status done = pass(i);
    if (!done.ok()) groups[i]->Abort(done);
    return done;
  });
  return passed;
}

}  // namespace

TEST_CASE("VocabTeam: embedding is one device's bit for bit, and so is the loss but for rounding",
          "[model]") {
  const auto devices = GENERATE(size_t{2}, size_t{4});
  RunConfig config = SplitRun();
  config.model.vocab = GENERATE(4, 19, 37, 64);
  config.model.tied_head = GENERATE(false, true);
  config.inner.z_loss = GENERATE(0.0f, 1e-2f);
  INFO(devices << " devices, " << config.model.vocab << " tokens");
  Ends one(config, 1), shared(config, devices);
  REQUIRE(one.Embed().ok());
  REQUIRE(shared.Embed().ok());
  CHECK(shared.out == one.out);
  const auto loss = one.Loss(), of_all = shared.Loss();
  REQUIRE((loss.ok() && of_all.ok()));
  CHECK(std::abs(*loss - *of_all) < 1e-6);
  CHECK(Furthest(shared.d_in, one.d_in) < 1e-6);
  const auto want = one.Gradients(), got = shared.Gradients();
  CHECK(FurthestTensor(one.stage->layout(), want, got) < 1e-5);
  for (int64_t step = 0; step < 3; ++step) {
    REQUIRE(one.stage->OptimizerStepOn(want, step, 1).ok());
    REQUIRE(shared.stage->OptimizerStepOn(want, step, 1).ok());
    REQUIRE(shared.stage->CheckEqual().ok());
  }
  CHECK(Furthest(one.Parameters(), shared.Parameters()) < 1e-6);
}

TEST_CASE("VocabTeam: devices train as one does where logits are made of some tokens at a time",
          "[model]") {
  const auto devices = GENERATE(size_t{2}, size_t{4});
  RunConfig config = GENERATE(false, true) ? LadderSplitRun() : SplitRun();
  config.model.vocab = 37;
  config.model.tied_head = GENERATE(false, true);
  config.inner.z_loss = 1e-3f;
  config.pipeline.sequences_per_microbatch = 80;
  REQUIRE(TokensPerMicrobatch(config) > kHeadChunk);
  SplitStages one(config, 1), split(config, devices);
  CHECK(std::abs(one.Pass({9, 0}) - split.Pass({9, 0})) < 1e-5);
  const auto of_one = one.TakeGradients(0), of_all = split.TakeGradients(0);
  CHECK(FurthestTensor(one.stage(0).layout(), of_one, of_all) < 1e-4);
  CHECK(Furthest(one.Steps(0, 3), split.Steps(0, 3)) < 1e-5);
  CHECK(Furthest(one.ParametersOf(0), split.ParametersOf(0)) < 2e-5);
}

TEST_CASE("VocabTeam: in bf16 losses and gradients are one device's within the type's rounding",
          "[model]") {
  RunConfig config = SplitRun();
  config.model.vocab = 37;
  config.inner.compute = InnerCompute::kBfloat16;
  const SplitKind bf16 = {[] { return CreateReferenceBackend(DType::kBfloat16); }};
  SplitStages one(config, 1, bf16), split(config, 4, bf16);
  CHECK(std::abs(one.Pass({0, 0}) - split.Pass({0, 0})) < 1e-2);
  const auto of_one = one.TakeGradients(0), of_all = split.TakeGradients(0);
  CHECK(FurthestTensor(one.stage(0).layout(), of_one, of_all) < 0.05);
  split.Step(1);  // and norms stay equal
}

TEST_CASE("VocabTeam: where one device's logits are not finite, neither is the loss",
          "[model][error]") {
  const RunConfig config = SplitRun();
  Ends ends(config, 4);
  std::vector<float> values = ends.Parameters();
  const TensorSlot* head = ends.stage->layout().Find("lm_head.weight");
  REQUIRE(head != nullptr);
  const int64_t row = GENERATE(0, 10, 18);  // of the first device, of the third, of the last
  values[static_cast<size_t>(head->offset + row * head->columns)] = NAN;
  ends.stage->WriteParameters(values);
  REQUIRE(ends.Embed().ok());
  const auto loss = ends.Loss();
  REQUIRE(loss.ok());
  CHECK(std::isnan(*loss));
  REQUIRE(ends.stage->Backward(kKey, ends.d_in, {}).ok());
  ends.stage->Accumulate(kKey);
  const absl::Status status = ends.stage->OptimizerStep(0, 1);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(ends.stage->optimizer_steps() == 0);
  CHECK(SameBits(ends.Parameters(), values));
}

TEST_CASE("VocabTeam: a device that fails in the loss is everybody's error", "[model][error]") {
  const RunConfig config = SplitRun();
  const auto victim = GENERATE(size_t{0}, size_t{3});
  Ends ends(config, 4);
  REQUIRE(ends.Embed().ok());
  ends.backends[victim]->is_full = true;  // before it has a gradient's
  const absl::Status failed = ends.Loss().status();
  INFO(ErrorText(failed));
  CHECK(absl::IsResourceExhausted(failed));
  ends.backends[victim]->is_full = false;
  CHECK_FALSE(ends.Loss().ok());  // the team is of no more use, and says so
}

TEST_CASE("VocabTeam: a device that dies at any step of a sum ends the pass of the other",
          "[model][error]") {
  const RunConfig config = SplitRun();
  const auto victim = GENERATE(0, 1);
  FaultyRing whole = MakeFaultyRing(2, victim, {}, Duration::Seconds(20));
  const Passed good = PassOver(config, whole.groups);
  for (const absl::Status& status : good.status) REQUIRE(status.ok());
  CHECK(good.made[0] == good.made[1]);
  REQUIRE(whole.fault->calls >= 10);
  for (int call = 0; call < whole.fault->calls; ++call) {
    INFO("call " << call << " of " << whole.fault->calls);
    FaultyRing ring = MakeFaultyRing(2, victim, {Fault::Kind::kDeath, call}, Duration::Seconds(20));
    const Passed passed = PassOver(config, ring.groups);
    const auto other = static_cast<size_t>(1 - victim);
    CHECK_FALSE(passed.status[static_cast<size_t>(victim)].ok());
    // Who had all that it needed from the dead may have ended well.
    if (passed.status[other].ok()) CHECK(passed.made[other] == good.made[other]);
  }
}

TEST_CASE("VocabTeam: losses that do not fit are refused, and the team goes on", "[model][error]") {
  const RunConfig config = SplitRun();
  Ends ends(config, 2);
  CHECK(absl::IsFailedPrecondition(ends.Loss().status()));  // of no microbatch
  REQUIRE(ends.Embed().ok());
  std::vector<float> less(ends.out.size() - 1);
  CHECK(absl::IsInvalidArgument(ends.stage->Loss(kKey, less, ends.text.targets, less).status()));
  std::vector<int32_t> targets = ends.text.targets;
  targets[5] = GENERATE(-1, 19);
  CHECK(absl::IsInvalidArgument(ends.stage->Loss(kKey, ends.out, targets, ends.d_in).status()));
  REQUIRE(ends.Loss().ok());
  CHECK(absl::IsFailedPrecondition(ends.Loss().status()));  // it has one
  ends.Gradients();
}

}  // namespace skerry
