// The promise everything else rests on: neither the split into stages nor the order in which
// messages arrive changes a bit.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

struct Outcome {
  std::vector<float> losses;
  std::vector<float> parameters;
  bool operator==(const Outcome&) const = default;
};

Outcome TrainThreeSteps(const RunConfig& config, const std::vector<int32_t>& borders,
                        const std::vector<int32_t>& order,
                        const KernelTable& kernels = BestKernels(), int threads = 1,
                        int32_t recomputed = 0) {
  const auto backend = CreateCpuBackendWith(kernels, threads, ComputeTypeOf(config.inner));
  ChainedStages stages(config, borders, backend.get(), recomputed);
  Outcome outcome;
  for (int64_t step = 0; step < 3; ++step) {
    for (const float loss : stages.Step(step, order)) outcome.losses.push_back(loss);
  }
  outcome.parameters = stages.ModelParameters();
  return outcome;
}

}  // namespace

TEST_CASE("StageTrainer: however the layers are split, bits are the same", "[model]") {
  RunConfig config = TinyRun();
  config.model.tied_head = GENERATE(false, true);
  const Outcome whole = TrainThreeSteps(config, {5}, {0, 1, 2, 3});

  CHECK(TrainThreeSteps(config, {2, 5}, {0, 1, 2, 3}) == whole);
  CHECK(TrainThreeSteps(config, {1, 2, 4, 5}, {0, 1, 2, 3}) == whole);
  CHECK(TrainThreeSteps(config, {0, 5}, {0, 1, 2, 3}) == whole);
}

TEST_CASE("StageTrainer: 1, 2 and 4 stages have the same bits on every instruction set",
          "[model]") {
  RunConfig config = TinyRun();
  config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  const int threads = GENERATE(1, 2);
  for (auto kernels = RunnableKernelTables(); *kernels != nullptr; ++kernels) {
    INFO((*kernels)->name << ", " << threads << " threads");
    const Outcome whole = TrainThreeSteps(config, {5}, {0, 1, 2, 3}, **kernels, threads);
    CHECK(TrainThreeSteps(config, {5}, {0, 1, 2, 3}, **kernels, threads) == whole);
    CHECK(TrainThreeSteps(config, {2, 5}, {0, 1, 2, 3}, **kernels, threads) == whole);
    CHECK(TrainThreeSteps(config, {1, 2, 4, 5}, {0, 1, 2, 3}, **kernels, threads) == whole);
  }
}

TEST_CASE("StageTrainer: what is computed again on the way back has the same bits", "[model]") {
  RunConfig config = TinyRun();
  config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  const int threads = GENERATE(1, 2);
  const int32_t recomputed = GENERATE(1, 5);
  for (auto kernels = RunnableKernelTables(); *kernels != nullptr; ++kernels) {
    INFO((*kernels)->name << ", " << threads << " threads, " << recomputed << " layers");
    const Outcome stashed = TrainThreeSteps(config, {2, 5}, {2, 0, 1, 3}, **kernels, threads);
    CHECK(TrainThreeSteps(config, {2, 5}, {2, 0, 1, 3}, **kernels, threads, recomputed) == stashed);
  }
}

TEST_CASE("StageTrainer: layers that are computed again are not kept", "[model]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateCpuBackend(1);
  const auto held = [&](int32_t recomputed) {
    const auto stage = *StageTrainer::Create(config, 0, 5, true, backend.get(), recomputed);
    const int64_t before = stage->HeldBytes();
    std::vector<float> out(static_cast<size_t>(TokensPerMicrobatch(config) * config.model.hidden));
    REQUIRE(stage->ForwardFirst({0, 0}, TinyText(config, {0, 0}).tokens, out).ok());
    return stage->HeldBytes() - before;
  };
  CHECK(held(5) < held(3));
  CHECK(held(3) < held(0));
  CHECK(held(5) < held(0) / 4);
}

TEST_CASE("StageTrainer: in whatever order gradients come home, bits are the same", "[model]") {
  const RunConfig config = TinyRun();
  const Outcome in_order = TrainThreeSteps(config, {2, 5}, {0, 1, 2, 3});

  CHECK(TrainThreeSteps(config, {2, 5}, {3, 1, 0, 2}) == in_order);
  CHECK(TrainThreeSteps(config, {2, 5}, {1, 3, 2, 0}) == in_order);
}

TEST_CASE("StageTrainer: training changes every tensor and lowers the loss", "[model]") {
  RunConfig config = TinyRun();
  config.inner.learning_rate = 0.02f;
  const auto backend = CreateCpuBackend(1);
  ChainedStages stages(config, {2, 5}, backend.get());
  const std::vector<float> before = stages.ModelParameters();
  std::vector<float> unused;
  const float loss_before = stages.ForwardAndLoss({100, 0}, unused);

  for (int64_t step = 0; step < 3; ++step) stages.Step(step, {0, 1, 2, 3});
  // The texts of a step are random, but those it has seen are remembered.
  const float loss_after = stages.ForwardAndLoss({2, 0}, unused);

  const std::vector<float> after = stages.ModelParameters();
  const ParameterLayout model = ParameterLayout::ForModel(config.model);
  for (const TensorSlot& slot : model.tensors()) {
    INFO(slot.name);
    const auto at = static_cast<size_t>(slot.offset);
    CHECK(before[at] != after[at]);
  }
  CHECK(loss_before == Approx(std::log(19.0)).epsilon(0.02));  // nothing is known at first
  CHECK(loss_after < loss_before);
}

}  // namespace skerry
