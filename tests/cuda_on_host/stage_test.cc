// A whole stage trained by the plug-in's kernels, beside the CPU; and what it sends of a round.
#include "model/stage_trainer.h"
#include "node/trained_stage.h"
#include "tests/cuda_on_host/gpu_under_test.h"
#include "tests/model/disk_directory.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

// Heads of 64, so that attention is that of tensor cores.
RunConfig SmallRun() {
  RunConfig config = TinyRun();
  config.model.hidden = 128;
  config.model.layers = 2;
  config.model.heads = 2;
  config.model.kv_heads = 1;
  config.inner.warmup_steps = 0;
  return config;
}

// Losses of some steps on one microbatch each.
std::vector<float> Losses(const RunConfig& config, Backend& backend, Backend* host = nullptr) {
  auto trainer =
      StageTrainer::Create(config, 0, config.model.layers, true, &backend, 0, {0, {}, host});
  REQUIRE(trainer.ok());
  std::vector<float> losses, stream, gradient;
  for (int64_t step = 0; step < 3; ++step) {
    const MicrobatchKey key = {step, 0};
    const TinyText text(config, {0, 0});
    stream.resize(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
    gradient.resize(stream.size());
    REQUIRE((*trainer)->ForwardFirst(key, text.tokens, stream).ok());
    const auto loss = (*trainer)->Loss(key, stream, text.targets, gradient);
    REQUIRE(loss.ok());
    losses.push_back(*loss);
    REQUIRE((*trainer)->Backward(key, gradient, {}).ok());
    (*trainer)->Accumulate(key);
    REQUIRE((*trainer)->OptimizerStep(step, 1).ok());
  }
  return losses;
}

class MadeUpTokens : public TokenSource {
 public:
  explicit MadeUpTokens(const RunConfig& config) : config_(config) {}
  absl::Status Read(int64_t step, int32_t microbatch, std::span<int32_t> tokens,
                    std::span<int32_t> targets) override {
    const TinyText text(config_, {step, microbatch});
    std::copy(text.tokens.begin(), text.tokens.end(), tokens.begin());
    std::copy(text.targets.begin(), text.targets.end(), targets.begin());
    return absl::OkStatus();
  }

 private:
  RunConfig config_;
};

}  // namespace

TEST_CASE("CUDA text: a stage's losses fall as they do on the CPU", "[cuda]") {
  const RunConfig config = SmallRun();
  const DType compute = GENERATE(DType::kFloat32, DType::kBfloat16);
  const auto want = Losses(config, *CreateReferenceBackend());
  const auto got = Losses(config, *TestGpu(compute));
  CHECK(want.back() < want.front());
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(0.01));
}

TEST_CASE("CUDA text: stashes that the lane took to the host, or on to a disk, have the same bits",
          "[cuda][spill]") {
  const RunConfig config = SmallRun();
  const DType compute = GENERATE(DType::kFloat32, DType::kBfloat16);
  const auto trained = [&](const StashParking& parking) {
    const auto gpu = TestGpu(compute);
    const auto trainer =
        *StageTrainer::Create(config, 0, 2, false, gpu.get(), 0, {0, {}, nullptr, parking});
    std::vector<float> stream(
        static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
    std::vector<float> in(stream.size());
    const auto fill = [&](int32_t microbatch, const char* what) {
      Rng rng(4, what, static_cast<uint64_t>(microbatch));
      for (float& value : in) value = static_cast<float>(rng.Uniform() - 0.5);
    };
    for (int32_t m = 0; m < 5; ++m) {
      fill(m, "in");
      REQUIRE(trainer->Forward({0, m}, in, stream).ok());
    }
    trainer->Discard({0, 3});
    for (const int32_t m : {0, 1, 4, 2}) {
      fill(m, "gradient");
      REQUIRE(trainer->Backward({0, m}, in, stream).ok());
    }
    for (const int32_t m : {0, 1, 2, 4}) trainer->Accumulate({0, m});
    std::vector<float> sums(static_cast<size_t>(trainer->layout().size()));
    trainer->TakeGradients(sums);
    return sums;
  };
  const auto want = trained({});
  CHECK(trained({2, 3, ""}) == want);
  const DiskDirectory directory;
  CHECK(trained({2, 3, directory.path(), true}) == want);
}

TEST_CASE("CUDA text: a GPU whose host makes the steps learns as it would by itself", "[cuda]") {
  const RunConfig config = SmallRun();
  const DType compute = GENERATE(DType::kFloat32, DType::kBfloat16);
  const auto want = Losses(config, *TestGpu(compute));
  const auto host = CreateCpuBackend(GENERATE(1, 2));
  const auto got = Losses(config, *TestGpu(compute), host.get());
  CHECK(got.front() == want.front());
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-4));
}

TEST_CASE("CUDA text: a stage on a GPU sends the message the CPU would make of its weights",
          "[cuda]") {
  RunConfig config = SmallRun();
  config.outer.codec = GENERATE(DeltaCodec::kInt8, DeltaCodec::kTernary, DeltaCodec::kTopK);
  StageAssignment assignment;
  assignment.last_layer = config.model.layers;
  assignment.replicas.resize(2);
  auto made = TrainedStage::Create(config, assignment, true, TestGpu(),
                                   std::make_unique<MadeUpTokens>(config));
  REQUIRE(made.ok());
  auto& stage = static_cast<TrainedStage&>(**made);
  const auto base = stage.LiveParameters();
  const auto forward = stage.ForwardFirst(0, 0);
  REQUIRE(forward.status.ok());
  CHECK(SizeOf(forward.values) == 0);  // of a whole model nothing leaves the device
  const auto loss = stage.Loss(0, 0, forward.values);
  REQUIRE(loss.status.ok());
  REQUIRE(stage.Backward(0, 0, loss.values).status.ok());
  stage.Accumulate(0, 0);
  REQUIRE(stage.OptimizerStep(0, 1).ok());

  const auto message = stage.EncodeDelta(0);
  REQUIRE(message.ok());

  const auto live = stage.LiveParameters();
  Bytes want;
  const DeltaSource source = {.base = base, .theta = live};
  REQUIRE(CodecFor(config.outer.codec).EncodeDelta(source, &want).ok());
  CHECK(**message == want);
  CHECK(stage.CheckDelta(0, *message).ok());
}

}  // namespace skerry
