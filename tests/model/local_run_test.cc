#include "model/local_run.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/status.h"
#include "model/evaluate.h"
#include "model/token_dataset_writer.h"
#include "tests/model/temporary_directory.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

// A text anyone can learn: 0 1 2 … 18 0 1 2 …
std::unique_ptr<TokenDataset> CountingText(const std::string& directory) {
  const auto writer = *TokenDatasetWriter::Create(directory, 19, 500);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 3000; ++i) tokens.push_back(i % 19);
  REQUIRE(writer->Append(Split::kTrain, tokens).ok());
  REQUIRE(writer->Append(Split::kValidation, std::span(tokens).first(100)).ok());
  REQUIRE(writer->Finish().ok());
  return *TokenDataset::Open(directory, Verify::kDigests);
}

}  // namespace

TEST_CASE("TrainLocally: equals a pipeline of stages fed the same microbatches", "[model]") {
  const TemporaryDirectory directory;
  const auto data = CountingText(directory.Join("data"));
  const auto backend = CreateCpuBackend(1);
  RunConfig config = TinyRun();
  config.pipeline.microbatches_per_step = 2;
  std::vector<float> losses, expected;
  const auto parameters = TrainLocally(config, *data, backend.get(), 2,
                                       [&](int64_t, float loss) { losses.push_back(loss); });

  const auto first = *StageTrainer::Create(config, 0, 3, true, backend.get());
  const auto second = *StageTrainer::Create(config, 3, 5, false, backend.get());
  const auto count = static_cast<size_t>(TokensPerMicrobatch(config));
  std::vector<int32_t> tokens(count), targets(count);
  std::vector<float> a(count * 24), b(count * 24);
  for (int64_t step = 0; step < 2; ++step) {
    double sum = 0;
    for (int32_t m = 0; m < 2; ++m) {
      const MicrobatchKey key{step, m};
      REQUIRE(data->ReadMicrobatch(config, step, m, tokens, targets).ok());
      REQUIRE(first->ForwardFirst(key, tokens, a).ok());
      REQUIRE(second->Forward(key, a, b).ok());
      sum += *first->Loss(key, b, targets, a);
      REQUIRE(second->Backward(key, a, b).ok());
      REQUIRE(first->Backward(key, b, {}).ok());
      first->Accumulate(key);
      second->Accumulate(key);
    }
    REQUIRE(first->OptimizerStep(step, 2).ok());
    REQUIRE(second->OptimizerStep(step, 2).ok());
    expected.push_back(static_cast<float>(sum / 2));
  }

  REQUIRE(parameters.ok());
  CHECK(losses == expected);
  std::vector<float> own(static_cast<size_t>(second->layout().size())), got(own.size());
  second->ReadParameters(own);
  CopyTensors(ParameterLayout::ForModel(config.model), *parameters, second->layout(), got);
  CHECK(got == own);
}

TEST_CASE("TrainLocally: learns to count, and validation says so", "[model]") {
  const TemporaryDirectory directory;
  const auto data = CountingText(directory.Join("data"));
  const auto backend = CreateCpuBackend(1);
  RunConfig config = TinyRun();
  config.steps = 60;
  config.inner.learning_rate = 0.01f;
  config.inner.min_learning_rate = 0.001f;
  std::vector<float> losses;

  const auto parameters = TrainLocally(config, *data, backend.get(), 60,
                                       [&](int64_t, float loss) { losses.push_back(loss); });

  REQUIRE(parameters.ok());
  REQUIRE(losses.size() == 60);
  CHECK(losses.front() == Approx(std::log(19.0)).epsilon(0.02));
  CHECK(losses.back() < 0.3);
  const auto few = Evaluate(config.model, *parameters, *data, 3, backend.get());
  const auto all = Evaluate(config.model, *parameters, *data, 1000, backend.get());
  REQUIRE(few.ok());
  REQUIRE(all.ok());
  CHECK(few->tokens == 21);
  CHECK(all->windows == 14);
  CHECK(all->loss < 0.3);
}

TEST_CASE("Evaluate: a split without a window is refused", "[model][error]") {
  const TemporaryDirectory directory;
  const auto data = CountingText(directory.Join("data"));
  const auto backend = CreateCpuBackend(1);
  RunConfig config = TinyRun();
  config.model.context = 100;
  const std::vector<float> parameters(
      static_cast<size_t>(ParameterLayout::ForModel(config.model).size()));

  const auto result = Evaluate(config.model, parameters, *data, 1, backend.get());

  CHECK(absl::IsFailedPrecondition(result.status()));
}

}  // namespace skerry
