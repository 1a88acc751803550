#include "model/stage_trainer.h"

#include <catch2/catch.hpp>

#include "common/status.h"
#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

constexpr MicrobatchKey kKey{0, 0};

std::vector<float> Parameters(StageTrainer& trainer) {
  std::vector<float> values(static_cast<size_t>(trainer.layout().size()));
  trainer.ReadParameters(values);
  return values;
}

}  // namespace

TEST_CASE("StageTrainer: a discarded microbatch leaves no trace", "[model]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  ChainedStages with(config, {2, 5}, backend.get());
  ChainedStages without(config, {2, 5}, backend.get());
  const int stop_after = GENERATE(0, 1, 2);  // forward, loss, backward
  std::vector<float> gradient;

  if (stop_after >= 1) {
    with.ForwardAndLoss({0, 9}, gradient);
    if (stop_after >= 2) with.Backward({0, 9}, gradient);
  } else {
    std::vector<float> out(with.StreamFloats());
    REQUIRE(with.stage(0).ForwardFirst({0, 9}, TinyText(config, {0, 9}).tokens, out).ok());
  }
  with.stage(0).Discard({0, 9});
  with.stage(1).Discard({0, 9});
  with.stage(1).Discard({7, 7});  // never heard of

  CHECK(with.Step(0, {0, 1}) == without.Step(0, {0, 1}));
  CHECK(with.ModelParameters() == without.ModelParameters());
}

TEST_CASE("StageTrainer: a microbatch may begin again after Discard, not before",
          "[model][error]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  const auto trainer = *StageTrainer::Create(config, 2, 4, false, backend.get());
  const std::vector<float> in(static_cast<size_t>(TokensPerMicrobatch(config)) * 24, 0.5f);
  std::vector<float> out(in.size());
  REQUIRE(trainer->Forward(kKey, in, out).ok());

  CHECK(absl::IsAlreadyExists(trainer->Forward(kKey, in, out)));
  trainer->Discard(kKey);
  CHECK(trainer->Forward(kKey, in, out).ok());
}

TEST_CASE("StageTrainer: calls out of order are refused and change nothing", "[model][error]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  ChainedStages stages(config, {5}, backend.get());
  StageTrainer& trainer = stages.stage(0);
  const TinyText text(config, kKey);
  std::vector<float> stream(stages.StreamFloats()), gradient(stages.StreamFloats());

  CHECK(absl::IsFailedPrecondition(trainer.Loss(kKey, stream, text.targets, gradient).status()));
  CHECK(absl::IsFailedPrecondition(trainer.Backward(kKey, gradient, {})));
  REQUIRE(trainer.ForwardFirst(kKey, text.tokens, stream).ok());
  CHECK(absl::IsFailedPrecondition(trainer.Backward(kKey, gradient, {})));
  REQUIRE(trainer.Loss(kKey, stream, text.targets, gradient).ok());
  CHECK(absl::IsFailedPrecondition(trainer.Loss(kKey, stream, text.targets, gradient).status()));
  REQUIRE(trainer.Backward(kKey, gradient, {}).ok());
  CHECK(absl::IsFailedPrecondition(trainer.Backward(kKey, gradient, {})));
}

TEST_CASE("StageTrainer: tokens and lengths that do not fit are refused", "[model][error]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  ChainedStages stages(config, {5}, backend.get());
  StageTrainer& trainer = stages.stage(0);
  std::vector<float> stream(stages.StreamFloats()), short_stream(3);
  std::vector<int32_t> tokens = TinyText(config, kKey).tokens;

  CHECK(absl::IsInvalidArgument(trainer.ForwardFirst(kKey, tokens, short_stream)));
  tokens[3] = GENERATE(19, -1);
  CHECK(absl::IsInvalidArgument(trainer.ForwardFirst(kKey, tokens, stream)));
  tokens.pop_back();
  CHECK(absl::IsInvalidArgument(trainer.ForwardFirst(kKey, tokens, stream)));
  CHECK(absl::IsInvalidArgument(StageTrainer::Create(config, 3, 3, false, nullptr).status()));
  CHECK(absl::IsInvalidArgument(StageTrainer::Create(config, 3, 6, false, nullptr).status()));
}

TEST_CASE("StageTrainer: a step without microbatches changes nothing", "[model]") {
  const auto backend = CreateReferenceBackend();
  const auto trainer = *StageTrainer::Create(TinyRun(), 1, 3, false, backend.get());
  const std::vector<float> before = Parameters(*trainer);

  REQUIRE(trainer->OptimizerStep(0, 0).ok());

  CHECK(Parameters(*trainer) == before);
}

TEST_CASE("StageTrainer: a diverged step is refused by block and the next one is clean",
          "[model][error]") {
  const RunConfig config = TinyRun();
  const auto backend = CreateReferenceBackend();
  const auto trainer = *StageTrainer::Create(config, 2, 4, false, backend.get());
  const std::vector<float> before = Parameters(*trainer);
  std::vector<float> in(static_cast<size_t>(TokensPerMicrobatch(config)) * 24, 0.5f);
  std::vector<float> out(in.size());
  REQUIRE(trainer->Forward(kKey, in, out).ok());
  in[5] = NAN;
  REQUIRE(trainer->Backward(kKey, in, out).ok());
  trainer->Accumulate(kKey);

  const absl::Status status = trainer->OptimizerStep(0, 1);

  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("layer 2") != std::string::npos);
  CHECK(Parameters(*trainer) == before);
  in[5] = 0.5f;
  REQUIRE(trainer->Forward(kKey, in, out).ok());
  REQUIRE(trainer->Backward(kKey, in, out).ok());
  trainer->Accumulate(kKey);
  CHECK(trainer->OptimizerStep(1, 1).ok());
  CHECK(Parameters(*trainer) != before);
}

TEST_CASE("StageTrainer: parameters written are the parameters read", "[model]") {
  const auto backend = CreateReferenceBackend();
  const auto trainer = *StageTrainer::Create(TinyRun(), 1, 3, false, backend.get());
  std::vector<float> values = Parameters(*trainer);
  for (float& value : values) value += 1;

  trainer->WriteParameters(values);

  CHECK(Parameters(*trainer) == values);
}

}  // namespace skerry
