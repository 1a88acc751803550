#include "model/stage_optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/status.h"

namespace skerry {
namespace {

// One layer of hidden 2: every tensor by hand.
TransformerConfig OneLayer() {
  TransformerConfig config;
  config.vocab = 2;
  config.hidden = 2;
  config.layers = 1;
  config.heads = config.kv_heads = 1;
  config.ffn = 1;
  return config;
}

struct Fixture {
  std::unique_ptr<Backend> backend = CreateReferenceBackend();
  ParameterLayout layout = ParameterLayout::ForModel(OneLayer());
  std::unique_ptr<Buffer> gradient = *backend->Allocate(layout.size());
  std::unique_ptr<WeightStore> weights = *WeightStore::Create(layout.size(), backend.get());
  std::vector<float> host = std::vector<float>(static_cast<size_t>(layout.size()), 1.0f);

  // Gradient sums: every value of a block is blocks[b].
  explicit Fixture(const std::vector<float>& blocks) {
    std::vector<float> sums(host.size());
    for (const TensorSlot& slot : layout.tensors()) {
      for (int64_t i = 0; i < slot.size(); ++i) {
        sums[static_cast<size_t>(slot.offset + i)] = blocks[static_cast<size_t>(slot.block)];
      }
    }
    backend->Upload(sums, gradient->data());
    weights->Write(host);
  }

  absl::Status Step(StageOptimizer& optimizer, int32_t microbatches) {
    const auto status = optimizer.Step(0.1f, microbatches, gradient->data(), weights.get());
    weights->Read(host);
    return status;
  }
  float At(const std::string& name) { return host[static_cast<size_t>(layout.Find(name)->offset)]; }
};

InnerConfig Sgd(float clip_norm) {
  InnerConfig config;
  config.optimizer = InnerOptimizer::kSgd;
  config.clip_norm = clip_norm;
  return config;
}

}  // namespace

TEST_CASE("StageOptimizer: a block with another rate goes as much further", "[model][neighbours]") {
  Fixture plain({4.0f, 4.0f, 4.0f}), raised({4.0f, 4.0f, 4.0f});
  InnerConfig config = Sgd(0);
  if (GENERATE(false, true)) config.optimizer = InnerOptimizer::kAdamW;
  auto one = *StageOptimizer::Create(config, &plain.layout, plain.backend.get());
  auto other = *StageOptimizer::Create(config, &raised.layout, raised.backend.get());
  other->SetRates({1, 1.1, 1});

  REQUIRE(plain.Step(*one, 2).ok());
  REQUIRE(raised.Step(*other, 2).ok());

  for (const TensorSlot& slot : plain.layout.tensors()) {
    const float moved = 1 - plain.At(slot.name), further = 1 - raised.At(slot.name);
    CHECK(further == Approx(slot.block == 1 ? 1.1f * moved : moved));
  }
}

TEST_CASE("StageOptimizer: SGD goes down the mean over microbatches", "[model]") {
  Fixture fixture({4.0f, 8.0f, -4.0f});
  const auto optimizer = *StageOptimizer::Create(Sgd(0), &fixture.layout, fixture.backend.get());

  REQUIRE(fixture.Step(*optimizer, 4).ok());

  CHECK(fixture.At("model.embed_tokens.weight") == Approx(1 - 0.1 * 1));
  CHECK(fixture.At("model.layers.0.mlp.down_proj.weight") == Approx(1 - 0.1 * 2));
  CHECK(fixture.At("model.norm.weight") == Approx(1 + 0.1 * 1));
}

TEST_CASE("StageOptimizer: each block is clipped by its own norm", "[model]") {
  // The embedding has 4 values: norm √4 · 8 / 2 = 8, clipped to 1. The others stay below.
  Fixture fixture({8.0f, 0.01f, 0.01f});
  const auto optimizer = *StageOptimizer::Create(Sgd(1), &fixture.layout, fixture.backend.get());

  REQUIRE(fixture.Step(*optimizer, 2).ok());

  CHECK(fixture.At("model.embed_tokens.weight") == Approx(1 - 0.1 * 0.5));
  CHECK(fixture.At("model.layers.0.mlp.down_proj.weight") == Approx(1 - 0.1 * 0.005));
}

TEST_CASE("StageOptimizer: AdamW's first step is the rate against the sign, and decays matrices",
          "[model]") {
  Fixture fixture({4.0f, 8.0f, -4.0f});
  InnerConfig config;
  config.weight_decay = 0.5f;
  const auto optimizer = *StageOptimizer::Create(config, &fixture.layout, fixture.backend.get());

  REQUIRE(fixture.Step(*optimizer, 1).ok());

  CHECK(fixture.At("model.embed_tokens.weight") == Approx(1 - 0.1 - 0.1 * 0.5).epsilon(1e-4));
  CHECK(fixture.At("lm_head.weight") == Approx(1 + 0.1 - 0.1 * 0.5).epsilon(1e-4));
  CHECK(fixture.At("model.norm.weight") == Approx(1 + 0.1).epsilon(1e-4));
  CHECK(fixture.At("model.layers.0.input_layernorm.weight") == Approx(1 - 0.1).epsilon(1e-4));
}

TEST_CASE("StageOptimizer: after Reset it steps as if new", "[model]") {
  InnerConfig config;
  Fixture fresh({1.0f, 1.0f, 1.0f});
  Fixture used({1.0f, 1.0f, 1.0f});
  const auto one = *StageOptimizer::Create(config, &fresh.layout, fresh.backend.get());
  const auto other = *StageOptimizer::Create(config, &used.layout, used.backend.get());
  REQUIRE(used.Step(*other, 1).ok());
  REQUIRE(used.Step(*other, 3).ok());
  const std::vector<float> ones(used.host.size(), 1.0f);
  used.weights->Write(ones);

  other->Reset();

  REQUIRE(fresh.Step(*one, 1).ok());
  REQUIRE(used.Step(*other, 1).ok());
  CHECK(used.host == fresh.host);
}

TEST_CASE("StageOptimizer: a gradient that is not finite changes nothing", "[model][error]") {
  const float bad = GENERATE(static_cast<float>(NAN), static_cast<float>(INFINITY));
  Fixture fixture({1.0f, 1.0f, bad});
  const auto optimizer = *StageOptimizer::Create({}, &fixture.layout, fixture.backend.get());

  const absl::Status status = fixture.Step(*optimizer, 1);

  CHECK(absl::IsInvalidArgument(status));
  CHECK(ErrorText(status).find("head") != std::string::npos);
  CHECK(fixture.host == std::vector<float>(fixture.host.size(), 1.0f));
}

}  // namespace skerry
