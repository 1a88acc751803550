#include "model/generate.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/status.h"
#include "model/initialize.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

std::map<int32_t, int> Draw(const std::vector<float>& logits, const SamplingConfig& sampling) {
  Rng rng(1, "draws");
  std::map<int32_t, int> counts;
  for (int i = 0; i < 10000; ++i) ++counts[SampleToken(logits, sampling, rng)];
  return counts;
}

SamplingConfig Sampling(float temperature, int32_t top_k) {
  SamplingConfig sampling;
  sampling.temperature = temperature;
  sampling.top_k = top_k;
  return sampling;
}

// Of a context of 7.
struct TinyDecoder {
  explicit TinyDecoder(const TransformerConfig& config = TinyRun().model,
                       std::unique_ptr<Backend> on = CreateCpuBackend(1))
      : backend(std::move(on)) {
    const auto layout = ParameterLayout::ForModel(config);
    parameters.resize(static_cast<size_t>(layout.size()));
    InitializeParameters(9, config, layout, parameters);
    decoder = *Decoder::Create(config, parameters, config.context, backend.get());
  }
  const std::unique_ptr<Backend> backend;
  std::vector<float> parameters;
  std::unique_ptr<Decoder> decoder;
};

}  // namespace

TEST_CASE("SampleToken: draws as often as softmax says", "[model]") {
  // Weights 1, 2, 4, 1 of 8.
  const std::vector<float> logits = {0.0f, 0.6931472f, 1.3862944f, 0.0f};

  auto plain = Draw(logits, Sampling(1.0f, 0));
  CHECK(plain[0] == Approx(1250).margin(150));
  CHECK(plain[1] == Approx(2500).margin(200));
  CHECK(plain[2] == Approx(5000).margin(200));

  auto hot = Draw(logits, Sampling(0.5f, 0));  // weights squared: 1, 4, 16, 1 of 22
  CHECK(hot[2] == Approx(10000.0 * 16 / 22).margin(200));

  auto two = Draw(logits, Sampling(1.0f, 2));  // 2 and 4 of 6
  CHECK(two.size() == 2);
  CHECK(two[1] == Approx(3333).margin(200));
}

TEST_CASE("SampleToken: temperature 0 and top 1 take the likeliest, the lower one of two",
          "[model]") {
  const std::vector<float> logits = {0.0f, 2.0f, 2.0f, 1.0f};
  const SamplingConfig sampling = GENERATE(Sampling(0.0f, 0), Sampling(1.0f, 1));

  CHECK(Draw(logits, sampling) == std::map<int32_t, int>{{1, 10000}});
}

TEST_CASE("GenerateTokens: the same seed writes the same text, past the context too", "[model]") {
  const TinyDecoder tiny;
  SamplingConfig sampling = Sampling(1.0f, 0);
  sampling.tokens = 20;
  const std::vector<int32_t> prompt = {1, 2, 3};

  const auto one = GenerateTokens(*tiny.decoder, prompt, sampling);
  const auto again = GenerateTokens(*tiny.decoder, prompt, sampling);
  sampling.seed = 2;
  const auto other = GenerateTokens(*tiny.decoder, prompt, sampling);

  REQUIRE(one.ok());
  CHECK(one->size() == 20);
  CHECK(*one == *again);
  CHECK(*one != *other);
}

TEST_CASE("GenerateTokens: who waits is told of every token", "[model]") {
  const TinyDecoder tiny;
  SamplingConfig sampling = Sampling(1.0f, 0);
  sampling.tokens = 3;
  using Told = std::vector<std::pair<int64_t, int64_t>>;
  Told told;

  const std::vector<int32_t> prompt = {1};
  REQUIRE(GenerateTokens(*tiny.decoder, prompt, sampling, [&](int64_t done, int64_t all) {
            told.emplace_back(done, all);
          }).ok());

  CHECK(told == Told{{1, 3}, {2, 3}, {3, 3}});
}

TEST_CASE("GenerateText: an empty prompt is a newline and bad requests are refused", "[model]") {
  TransformerConfig config = TinyRun().model;
  config.vocab = 256;
  const TinyDecoder tiny(config, CreateReferenceBackend());
  SamplingConfig sampling;
  sampling.tokens = 5;

  const auto bytes = *OpenTokenizer("byte");
  CHECK(GenerateText(*tiny.decoder, *bytes, "", sampling)->size() == 5);
  CHECK(*GenerateText(*tiny.decoder, *bytes, "", sampling) ==
        *GenerateText(*tiny.decoder, *bytes, "\n", sampling));
  CHECK(absl::IsInvalidArgument(GenerateTokens(*tiny.decoder, {}, sampling).status()));
  sampling.temperature = -1;
  CHECK(absl::IsInvalidArgument(GenerateText(*tiny.decoder, *bytes, "a", sampling).status()));
}

}  // namespace skerry
