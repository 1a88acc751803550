// Ladder residual on one device: what it computes, however it is cut, kept and read.
#include "model/ladder_block.h"

#include <catch2/catch.hpp>

#include "common/status.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/decoder.h"
#include "model/evaluate.h"
#include "model/generate.h"
#include "model/initialize.h"
#include "tests/model/plain_model.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

RunConfig LadderRun(int32_t ladder = 2, int32_t layers = 8) {
  RunConfig config = TinyRun();
  config.model.layers = layers;
  config.model.ladder = ladder;
  return config;
}

struct Outcome {
  std::vector<float> losses, parameters;
  bool operator==(const Outcome&) const = default;
};

struct Way {
  const KernelTable& kernels = BestKernels();
  int threads = 1;
  int32_t recomputed = 0;  // of every stage
};

Outcome Train(const RunConfig& config, const std::vector<int32_t>& borders, const Way& way = {}) {
  const auto backend = CreateCpuBackendWith(way.kernels, way.threads, ComputeTypeOf(config.inner));
  ChainedStages stages(config, borders, backend.get(), way.recomputed);
  Outcome outcome;
  for (int64_t step = 0; step < 3; ++step) {
    for (const float loss : stages.Step(step, {2, 0, 1, 3})) outcome.losses.push_back(loss);
  }
  outcome.parameters = stages.ModelParameters();
  return outcome;
}

// Large enough that every half shows in the loss.
std::vector<float> LivelyParameters(const TransformerConfig& config) {
  const auto layout = ParameterLayout::ForModel(config);
  std::vector<float> values(static_cast<size_t>(layout.size()));
  Rng rng(5, "lively");
  for (const TensorSlot& slot : layout.tensors()) {
    for (int64_t i = 0; i < slot.size(); ++i) {
      const double value = slot.columns == 1 ? 1 + 0.2 * rng.Normal() : 0.3 * rng.Normal();
      values[static_cast<size_t>(slot.offset + i)] = static_cast<float>(value);
    }
  }
  return values;
}

std::unique_ptr<Decoder> DecoderOf(const TransformerConfig& config, Backend* backend) {
  return *Decoder::Create(config, LivelyParameters(config), 64, backend);
}

float LossOf(const TransformerConfig& config, Backend* backend) {
  const TinyText text(TinyRun(), {0, 0});
  return *DecoderOf(config, backend)->Loss(text.tokens, text.targets, 2);
}

}  // namespace

TEST_CASE("Ladder: the loss is that of the formula in float64, with any ladder and none",
          "[model][ladder]") {
  RunConfig config = LadderRun(GENERATE(0, 1, 2, 3, 6), 6);
  config.model.tied_head = GENERATE(false, true);
  INFO("ladder " << config.model.ladder);
  const TinyText text(config, {0, 0});
  const double formula =
      PlainModel(config.model, LivelyParameters(config.model)).Loss(text.tokens, text.targets);
  const auto reference = CreateReferenceBackend();
  CHECK(LossOf(config.model, reference.get()) == Approx(formula).epsilon(1e-6));
  const auto cpu = CreateCpuBackend(1);
  CHECK(LossOf(config.model, cpu.get()) == Approx(formula).epsilon(1e-5));
}

TEST_CASE("Ladder: every length of it is another model", "[model][ladder]") {
  const auto backend = CreateReferenceBackend();
  std::vector<float> losses;
  for (const int32_t ladder : {0, 1, 2, 3, 6}) {
    losses.push_back(LossOf(LadderRun(ladder, 6).model, backend.get()));
  }
  std::sort(losses.begin(), losses.end());
  for (size_t i = 1; i < losses.size(); ++i) CHECK(losses[i] - losses[i - 1] > 1e-3f);
}

TEST_CASE("Ladder: 1, 2 and 4 stages have the same bits on every instruction set",
          "[model][ladder]") {
  RunConfig config = LadderRun();
  config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  const int threads = GENERATE(1, 2);
  config.inner.optimizer = threads == 1 ? InnerOptimizer::kAdamW : InnerOptimizer::kSgd;
  for (auto kernels = RunnableKernelTables(); *kernels != nullptr; ++kernels) {
    INFO((*kernels)->name << ", " << threads << " threads");
    const Way way = {**kernels, threads};
    const Outcome whole = Train(config, {8}, way);
    CHECK(Train(config, {4, 8}, way) == whole);
    CHECK(Train(config, {2, 4, 6, 8}, way) == whole);
    CHECK(Train(config, {0, 8}, way) == whole);
  }
}

TEST_CASE("Ladder: what is computed again on the way back has the same bits", "[model][ladder]") {
  RunConfig config = LadderRun(GENERATE(1, 2, 4));
  config.inner.compute = GENERATE(InnerCompute::kFloat32, InnerCompute::kBfloat16);
  const int threads = GENERATE(1, 2);
  const Outcome stashed = Train(config, {4, 8}, {.threads = threads});
  for (const int32_t recomputed : {1, 3, 4}) {
    INFO("ladder " << config.model.ladder << ", " << recomputed << " layers");
    CHECK(Train(config, {4, 8}, {.threads = threads, .recomputed = recomputed}) == stashed);
  }
}

TEST_CASE("Ladder: of bf16 on the reference backend, recomputed or not, bits are the same",
          "[model][ladder]") {
  RunConfig config = LadderRun(2, 4);
  const auto backend = CreateReferenceBackend(DType::kBfloat16);
  std::vector<std::vector<float>> parameters;
  for (const int32_t recomputed : {0, 1, 4}) {
    ChainedStages stages(config, {2, 4}, backend.get(), recomputed);
    stages.Step(0, {1, 0});
    parameters.push_back(stages.ModelParameters());
  }
  CHECK(parameters[1] == parameters[0]);
  CHECK(parameters[2] == parameters[0]);
}

TEST_CASE("Ladder: training changes every tensor and lowers the loss", "[model][ladder]") {
  RunConfig config = LadderRun();
  config.inner.optimizer = GENERATE(InnerOptimizer::kAdamW, InnerOptimizer::kSgd);
  config.inner.learning_rate = config.inner.optimizer == InnerOptimizer::kSgd ? 0.3f : 0.02f;
  const auto backend = CreateCpuBackend(1);
  ChainedStages stages(config, {4, 8}, backend.get());
  const std::vector<float> before = stages.ModelParameters();
  std::vector<float> unused;
  const float loss_before = stages.ForwardAndLoss({100, 0}, unused);
  for (int64_t step = 0; step < 3; ++step) stages.Step(step, {0, 1, 2, 3});
  const float loss_after = stages.ForwardAndLoss({2, 0}, unused);
  const std::vector<float> after = stages.ModelParameters();
  const ParameterLayout layout = ParameterLayout::ForModel(config.model);
  for (const TensorSlot& slot : layout.tensors()) {
    INFO(slot.name);
    const auto at = static_cast<size_t>(slot.offset);
    CHECK(before[at] != after[at]);
  }
  CHECK(loss_after < loss_before);
}

TEST_CASE("Ladder: who reads the model has the loss that the trainer has", "[model][ladder]") {
  const RunConfig config = LadderRun(GENERATE(1, 2, 8));
  const auto backend = CreateCpuBackend(1);
  ChainedStages stages(config, {8}, backend.get());
  const TinyText text(config, {0, 0});
  std::vector<float> gradient;
  const float trained = stages.ForwardAndLoss({0, 0}, gradient);
  const auto decoder = *Decoder::Create(config.model, stages.ModelParameters(), 64, backend.get());
  CHECK(*decoder->Loss(text.tokens, text.targets, 2) == trained);
}

TEST_CASE("Ladder: what is generated is what evaluation finds likeliest", "[model][ladder]") {
  const TransformerConfig model = LadderRun().model;
  const auto backend = CreateCpuBackend(1);
  const auto decoder = DecoderOf(model, backend.get());
  SamplingConfig likeliest;
  likeliest.temperature = 0;
  likeliest.tokens = 4;
  std::vector<int32_t> text = {3, 1, 4};
  const std::vector<int32_t> generated = *GenerateTokens(*decoder, text, likeliest);
  REQUIRE(generated.size() == 4);
  const PlainModel plain(model, LivelyParameters(model));
  for (const int32_t token : generated) {
    const auto last = plain.Logits(text).back();
    CHECK(token == std::max_element(last.begin(), last.end()) - last.begin());
    text.push_back(token);
  }
}

TEST_CASE("Ladder: a stage that is left out is the identity", "[model][ladder]") {
  const TransformerConfig model = LadderRun(2, 6).model;
  const auto backend = CreateReferenceBackend();
  const auto decoder = DecoderOf(model, backend.get());
  decoder->LeaveOut(std::vector<int32_t>{2, 3});
  const TinyText text(TinyRun(), {0, 0});
  const float without = *decoder->Loss(text.tokens, text.targets, 2);

  TransformerConfig shorter = model;
  shorter.layers = 4;
  const auto whole = ParameterLayout::ForModel(model), rest = ParameterLayout::ForModel(shorter);
  const std::vector<float> values = LivelyParameters(model);
  std::vector<float> kept(static_cast<size_t>(rest.size()));
  for (const TensorSlot& slot : rest.tensors()) {
    std::string name = slot.name;
    for (const auto& [from, to] : {std::pair{".2.", ".4."}, std::pair{".3.", ".5."}}) {
      const size_t at = name.find(from);
      if (at != std::string::npos) name.replace(at, 3, to);
    }
    std::copy_n(values.begin() + whole.Find(name)->offset, slot.size(), kept.begin() + slot.offset);
  }
  const auto of_rest = *Decoder::Create(shorter, kept, 64, backend.get());
  CHECK(without == *of_rest->Loss(text.tokens, text.targets, 2));
}

TEST_CASE("Ladder: stages and what is left out are whole ladders", "[model][ladder][error]") {
  const RunConfig config = LadderRun(4);
  const auto backend = CreateReferenceBackend();
  for (const auto& [first, last] : {std::pair{0, 2}, std::pair{4, 6}, std::pair{2, 8}}) {
    const auto stage = StageTrainer::Create(config, first, last, first == 0, backend.get());
    CHECK(ErrorText(stage.status()) ==
          absl::StrFormat("a stage of layers %d to %d cuts a ladder of 4 layers", first, last));
  }
  const auto decoder = DecoderOf(config.model, backend.get());
  const auto windows = *TextWindows(config.model, std::vector<int32_t>(30, 3));
  CHECK(Robustness(*decoder, windows, 1, 2, 1).ok());
  CHECK(ErrorText(Robustness(*decoder, windows, 1, 3, 1).status()) ==
        "stages: want 2 to 2, the model's ladders, got 3");
}

}  // namespace skerry
