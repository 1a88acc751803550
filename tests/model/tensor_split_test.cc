// Which stages devices may share by tensors.
#include "common/status.h"
#include "model/stage_team.h"
#include "tests/model/tiny_run.h"

namespace skerry {

TEST_CASE("Tensor split: what cannot be split is refused, and the text says what was wanted",
          "[model][error]") {
  struct Refused {
    int32_t heads, kv_heads, ffn;
    InnerOptimizer optimizer;
    std::string words;
    int32_t vocab = 19;
  };
  const auto refused = GENERATE(values<Refused>({
      {8, 2, 20, InnerOptimizer::kAdamW, "multiples of 4, and this run's model has 8, 2 and 20"},
      {2, 2, 20, InnerOptimizer::kAdamW, "has 2, 2 and 20"},
      {8, 4, 22, InnerOptimizer::kSgd, "--split sequences"},
      {8, 4, 20, InnerOptimizer::kMuon, "Muon, needs whole ones; use --split sequences"},
      {8, 4, 20, InnerOptimizer::kAdamW,
       "a vocabulary of so many tokens, and this run's model has 3", 3},
  }));
  RunConfig config = TinyRun();
  config.model.hidden = 32;
  config.model.heads = refused.heads;
  config.model.kv_heads = refused.kv_heads;
  config.model.ffn = refused.ffn;
  config.model.vocab = refused.vocab;
  config.inner.optimizer = refused.optimizer;
  const auto backend = CreateCpuBackend(1);
  const std::vector<TeamDevice> four(4, TeamDevice{backend.get()});
  const auto made = StageTeam::Create(config, {2, 5, false, 0, DeviceSplit::kTensors}, four);
  REQUIRE(absl::IsInvalidArgument(made.status()));
  INFO(ErrorText(made.status()));
  CHECK(ErrorText(made.status()).find(refused.words) != std::string::npos);
}

TEST_CASE("Tensor split: devices that compute other bits are refused, and one device needs none",
          "[model][error]") {
  RunConfig config = TinyRun();
  config.model.ffn = 20;
  const auto slow = CreateReferenceBackend(), fast = CreateCpuBackend(1);
  const std::vector<TeamDevice> mixed = {{slow.get()}, {fast.get()}};
  const auto made = StageTeam::Create(config, {2, 5, false, 0, DeviceSplit::kTensors}, mixed);
  REQUIRE(absl::IsInvalidArgument(made.status()));
  CHECK(ErrorText(made.status()).find(fast->numeric_profile()) != std::string::npos);
  const auto one = std::span(mixed).first(1);
  const auto ends = StageTeam::Create(config, {0, 0, true, 0, DeviceSplit::kTensors}, one);
  REQUIRE(ends.ok());
  CHECK((*ends)->devices() == 1);
}

TEST_CASE("Tensor split: every token of a vocabulary is one device's, and shares are even",
          "[model]") {
  const int64_t vocab = GENERATE(4, 19, 31, 32, 257, 32000, 50257, 128256);
  const int32_t devices = GENERATE(1, 2, 3, 4);
  INFO(vocab << " tokens, " << devices << " devices");
  int64_t next = 0;
  for (int32_t rank = 0; rank < devices; ++rank) {
    const VocabRows rows = VocabRowsOf(vocab, {devices, rank});
    CHECK(rows.first == next);
    CHECK(rows.size > 0);
    CHECK(std::abs(rows.size - vocab / devices) <= 8);
    CHECK((rows.first % 8 == 0 || vocab < 8 * devices));
    next += rows.size;
  }
  CHECK(next == vocab);
}

}  // namespace skerry
