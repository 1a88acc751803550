#include "model/decoder.h"

#include <catch2/catch.hpp>

#include "model/export.h"
#include "model/initialize.h"
#include "tests/model/temporary_directory.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

std::vector<float> InitialParameters(const TransformerConfig& config) {
  const auto layout = ParameterLayout::ForModel(config);
  std::vector<float> values(static_cast<size_t>(layout.size()));
  InitializeParameters(9, config, layout, values);
  return values;
}

std::vector<float> LogitsOf(const TransformerConfig& config, const std::vector<float>& parameters,
                            const std::vector<int32_t>& tokens, int64_t sequences) {
  const auto backend = CreateCpuBackend(1);
  const auto decoder = *Decoder::Create(config, parameters, 64, backend.get());
  std::vector<float> logits(tokens.size() * static_cast<size_t>(config.vocab));
  REQUIRE(decoder->Logits(tokens, sequences, logits).ok());
  return logits;
}

}  // namespace

TEST_CASE("Decoder: an exported model gives the same logits when it is loaded", "[model]") {
  TransformerConfig config = TinyRun().model;
  config.tied_head = GENERATE(false, true);
  const std::vector<float> parameters = InitialParameters(config);
  const std::vector<int32_t> tokens = TinyText(TinyRun(), {0, 0}).tokens;
  const TemporaryDirectory directory;

  REQUIRE(WriteHuggingFace(directory.path(), config, parameters).ok());
  const auto model = ReadHuggingFace(directory.path());

  REQUIRE(model.ok());
  CHECK(LogitsOf(model->config, model->parameters, tokens, 2) ==
        LogitsOf(config, parameters, tokens, 2));
}

TEST_CASE("Decoder: has the loss the trainer has", "[model]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateCpuBackend(1);
  ChainedStages stages(config, {5}, backend.get());
  const TinyText text(config, {0, 0});
  std::vector<float> gradient;
  const float trained = stages.ForwardAndLoss({0, 0}, gradient);

  const auto decoder = *Decoder::Create(config.model, stages.ModelParameters(), 64, backend.get());

  CHECK(*decoder->Loss(text.tokens, text.targets, 2) == trained);
}

TEST_CASE("Decoder: the next token's logits are the last row, however long the text", "[model]") {
  const TransformerConfig config = TinyRun().model;
  const auto backend = CreateCpuBackend(1);
  const auto decoder = *Decoder::Create(config, InitialParameters(config), 64, backend.get());
  const auto length = GENERATE(size_t{1}, size_t{5}, size_t{32}, size_t{33}, size_t{64});
  const std::vector<int32_t> pattern = TinyText(TinyRun(), {0, 0}).tokens;
  std::vector<int32_t> tokens(length);
  for (size_t i = 0; i < length; ++i) tokens[i] = pattern[i % pattern.size()];
  std::vector<float> all(length * 19), next(19);

  REQUIRE(decoder->Logits(tokens, 1, all).ok());
  REQUIRE(decoder->NextLogits(tokens, next).ok());

  for (size_t i = 0; i < 19; ++i) {
    CHECK(next[i] == Approx(all[(length - 1) * 19 + i]).epsilon(1e-4).margin(1e-6));
  }
}

TEST_CASE("Decoder: a sequence does not see its neighbours", "[model]") {
  const TransformerConfig config = TinyRun().model;
  const std::vector<float> parameters = InitialParameters(config);
  const std::vector<int32_t> pair = TinyText(TinyRun(), {0, 0}).tokens;  // two sequences of 7
  std::vector<int32_t> changed = pair;
  for (size_t i = 0; i < 7; ++i) changed[i] = 0;

  const std::vector<float> before = LogitsOf(config, parameters, pair, 2);
  const std::vector<float> after = LogitsOf(config, parameters, changed, 2);

  CHECK(std::equal(before.begin() + 7 * 19, before.end(), after.begin() + 7 * 19));
  CHECK(before != after);
}

TEST_CASE("Decoder: what does not fit is refused", "[model][error]") {
  const TransformerConfig config = TinyRun().model;
  const auto backend = CreateReferenceBackend();
  std::vector<float> parameters = InitialParameters(config);
  const auto decoder = *Decoder::Create(config, parameters, 8, backend.get());
  std::vector<float> logits(19);

  CHECK_FALSE(decoder->NextLogits({}, logits).ok());
  CHECK_FALSE(decoder->NextLogits(std::vector<int32_t>(9, 1), logits).ok());
  CHECK_FALSE(decoder->NextLogits(std::vector<int32_t>{19}, logits).ok());
  CHECK_FALSE(decoder->Logits(std::vector<int32_t>(3, 1), 2, logits).ok());
  parameters.pop_back();
  CHECK_FALSE(Decoder::Create(config, parameters, 8, backend.get()).ok());
}

}  // namespace skerry
