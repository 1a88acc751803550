// A whole stage beside PyTorch: loss and every gradient of a small model (tools/torch_fixture.py).
#include <catch2/catch.hpp>
#include <fstream>

#include "kernels/cpu/cpu_backend.h"
#include "model/stage_trainer.h"
#include "tests/kernels/values.h"

namespace skerry {
namespace {

// SGD over so long a step that parameters before and after show the gradient to the last bit or
// two.
constexpr float kLearningRate = 256;

RunConfig FixtureRun() {
  RunConfig config;
  TransformerConfig& m = config.model;
  m.vocab = 24, m.hidden = 16, m.layers = 2, m.heads = 4, m.kv_heads = 2, m.ffn = 24;
  m.context = 12;
  config.pipeline.sequences_per_microbatch = 2;
  config.inner.optimizer = InnerOptimizer::kSgd;
  config.inner.learning_rate = config.inner.min_learning_rate = kLearningRate;
  config.inner.warmup_steps = 0;
  config.inner.clip_norm = 0;
  return config;
}

template <typename T>
std::vector<T> Read(std::ifstream& in, size_t count) {
  std::vector<T> values(count);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T)));
  return values;
}

struct Fixture {
  Fixture() {
    std::ifstream in(SKERRY_TORCH_FIXTURE, std::ios::binary);
    const auto size = static_cast<size_t>(ParameterLayout::ForModel(FixtureRun().model).size());
    parameters = Read<float>(in, size);
    tokens = Read<int32_t>(in, 24);
    targets = Read<int32_t>(in, 24);
    loss = Read<float>(in, 1)[0];
    gradients = Read<float>(in, size);
    complete = static_cast<bool>(in) && in.peek() == std::ifstream::traits_type::eof();
  }
  Values parameters, gradients;
  std::vector<int32_t> tokens, targets;
  float loss = 0;
  bool complete = false;
};

struct Learnt {
  float loss;
  Values gradients;
};

Learnt Learn(Backend& backend, const Fixture& torch) {
  const auto trainer = *StageTrainer::Create(FixtureRun(), 0, 2, true, &backend);
  trainer->WriteParameters(torch.parameters);
  Values stream(24 * 16), d_stream(stream.size()), after(torch.parameters.size());
  REQUIRE(trainer->ForwardFirst({0, 0}, torch.tokens, stream).ok());
  const float loss = *trainer->Loss({0, 0}, stream, torch.targets, d_stream);
  REQUIRE(trainer->Backward({0, 0}, d_stream, {}).ok());
  trainer->Accumulate({0, 0});
  REQUIRE(trainer->OptimizerStep(0, 1).ok());
  trainer->ReadParameters(after);
  for (size_t i = 0; i < after.size(); ++i)
    after[i] = (torch.parameters[i] - after[i]) / kLearningRate;
  return {loss, after};
}

void CheckEveryTensor(const Learnt& learnt, const Fixture& torch, double error_max) {
  CHECK(learnt.loss == Approx(torch.loss).epsilon(error_max));
  const ParameterLayout layout = ParameterLayout::ForModel(FixtureRun().model);
  for (const TensorSlot& slot : layout.tensors()) {
    INFO(slot.name);
    const auto part = [&](const Values& all) {
      return Values(all.begin() + slot.offset, all.begin() + slot.offset + slot.size());
    };
    CHECK(NormwiseError(part(learnt.gradients), part(torch.gradients)) <= error_max);
  }
}

}  // namespace

TEST_CASE("StageTrainer: loss and gradients are PyTorch's on every instruction set", "[model]") {
  const Fixture torch;
  REQUIRE(torch.complete);
  for (auto kernels = RunnableKernelTables(); *kernels != nullptr; ++kernels) {
    INFO((*kernels)->name);
    CheckEveryTensor(Learn(*CreateCpuBackendWith(**kernels, 1), torch), torch, 2e-5);
  }
  CheckEveryTensor(Learn(*CreateReferenceBackend(), torch), torch, 2e-5);
}

TEST_CASE("StageTrainer: computing in bf16, gradients stay within its rounding", "[model]") {
  const Fixture torch;
  const auto reference = CreateReferenceBackend(DType::kBfloat16);
  CheckEveryTensor(Learn(*reference, torch), torch, 0.04);
  const auto cpu = CreateCpuBackendWith(BestKernels(), 1, DType::kBfloat16);
  if (cpu->compute_type() == DType::kBfloat16) CheckEveryTensor(Learn(*cpu, torch), torch, 0.04);
}

TEST_CASE("StageTrainer: a NaN on its way is reported, and changes nothing", "[model][error]") {
  const Fixture torch;
  for (const DType type : {DType::kFloat32, DType::kBfloat16}) {
    const auto backend = CreateCpuBackendWith(BestKernels(), 1, type);
    const auto trainer = *StageTrainer::Create(FixtureRun(), 0, 2, true, backend.get());
    trainer->WriteParameters(torch.parameters);
    Values stream(24 * 16), d_stream(stream.size()), after(torch.parameters.size());
    REQUIRE(trainer->ForwardFirst({0, 0}, torch.tokens, stream).ok());
    stream[100] = NAN;
    CHECK(std::isnan(*trainer->Loss({0, 0}, stream, torch.targets, d_stream)));
    REQUIRE(trainer->Backward({0, 0}, d_stream, {}).ok());
    trainer->Accumulate({0, 0});
    CHECK(absl::IsInvalidArgument(trainer->OptimizerStep(0, 1)));
    trainer->ReadParameters(after);
    CHECK(after == torch.parameters);
  }
}

}  // namespace skerry
