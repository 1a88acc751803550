#include "model/local_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "common/status.h"
#include "model/evaluate.h"
#include "model/initialize.h"
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

TEST_CASE("Robustness: a stage left out is a model without its layers", "[model]") {
  const TemporaryDirectory directory;
  const auto data = CountingText(directory.Join("data"));
  const auto backend = CreateCpuBackend(1);
  RunConfig config = TinyRun();
  config.model.layers = 4;
  const auto layout = ParameterLayout::ForModel(config.model);
  std::vector<float> parameters(static_cast<size_t>(layout.size()));
  InitializeParameters(3, config.model, layout, parameters);
  for (float& value : parameters) value *= 10;  // so that a layer matters
  const auto decoder = *Decoder::Create(config.model, parameters, 64, backend.get());
  const auto windows = *ValidationWindows(config.model, *data);

  std::vector<int64_t> told;
  int64_t told_all = 0;
  const auto rows = Robustness(*decoder, windows, 1000, 4, 1, [&](int64_t done, int64_t all) {
    told.push_back(done);
    told_all = all;
  });

  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 7);  // none; stages 1, 2, 3; 1, 2, 3 of 4
  CHECK(rows->front().evaluation.loss ==
        Evaluate(config.model, parameters, *data, 1000, backend.get())->loss);
  // A layer whose outputs are zero is the identity, too.
  std::vector<float> without_2 = parameters;
  for (const TensorSlot& tensor : layout.tensors()) {
    if (tensor.name.find("layers.2.") == std::string::npos || !tensor.is_residual_output) continue;
    std::fill_n(without_2.begin() + tensor.offset, tensor.size(), 0.f);
  }
  CHECK((*rows)[2].left_out == "stage 2 (layers 2 to 2)");
  CHECK((*rows)[2].evaluation.loss ==
        Approx(Evaluate(config.model, without_2, *data, 1000, backend.get())->loss));
  CHECK((*rows)[2].evaluation.loss != Approx(rows->front().evaluation.loss));
  CHECK((*rows)[5].left_out == "2 of 4 stages");
  CHECK((*rows)[5].share == 0.5);
  // All three are gone, whatever is drawn.
  const std::vector<int32_t> all = {1, 2, 3};
  const auto alone = EvaluateWindows(*decoder, windows, 1000, [&](int64_t) { return all; });
  CHECK((*rows)[6].evaluation.loss == alone->loss);
  std::vector<int64_t> each(told.size());
  std::iota(each.begin(), each.end(), 1);
  CHECK(told == each);
  CHECK(told_all == std::ssize(told));
  CHECK(absl::IsInvalidArgument(Robustness(*decoder, windows, 10, 5, 1).status()));
  CHECK(absl::IsInvalidArgument(Robustness(*decoder, windows, 10, 1, 1).status()));
}

TEST_CASE("EvaluateWindows: a text's windows are read one behind the other", "[model]") {
  const RunConfig config = TinyRun();
  const auto windows = TextWindows(config.model, std::vector<int32_t>(3 * 7 + 1, 5));
  REQUIRE(windows.ok());
  CHECK(windows->count == 3);
  CHECK(absl::IsFailedPrecondition(TextWindows(config.model, std::vector<int32_t>(7, 5)).status()));
  CHECK(absl::IsFailedPrecondition(TextWindows(config.model, {}).status()));
}

}  // namespace skerry
