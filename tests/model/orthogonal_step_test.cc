#include "model/orthogonal_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/rng.h"
#include "model/stage_optimizer.h"

namespace skerry {
namespace {

TransformerConfig Shape() {
  TransformerConfig config;
  config.vocab = 16;
  config.hidden = 24;
  config.layers = 1;
  config.heads = 2;
  config.kv_heads = 1;
  config.ffn = 40;
  return config;
}

std::vector<float> Noise(int64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = static_cast<float>(rng.Normal());
  return values;
}

// [rows, rows] · [rows, columns], in float64.
std::vector<double> Product(const std::vector<double>& square, const std::vector<double>& x,
                            size_t rows, size_t columns) {
  std::vector<double> out(rows * columns);
  for (size_t i = 0; i < rows; ++i)
    for (size_t k = 0; k < rows; ++k)
      for (size_t j = 0; j < columns; ++j)
        out[i * columns + j] += square[i * rows + k] * x[k * columns + j];
  return out;
}

// X Xᵀ
std::vector<double> GramOf(const std::vector<double>& x, size_t rows, size_t columns) {
  std::vector<double> gram(rows * rows);
  for (size_t i = 0; i < rows; ++i)
    for (size_t k = 0; k < rows; ++k)
      for (size_t j = 0; j < columns; ++j)
        gram[i * rows + k] += x[i * columns + j] * x[k * columns + j];
  return gram;
}

// From the formulas, always by the left side.
std::vector<double> DirectionInFloat64(std::vector<double> x, size_t rows, size_t columns) {
  double square = 0;
  for (const double value : x) square += value * value;
  for (double& value : x) value /= 1.0001 * std::sqrt(square);
  for (int k = 0; k < 5; ++k) {
    const auto gram = GramOf(x, rows, columns);
    const auto third = Product(gram, x, rows, columns);
    const auto fifth = Product(gram, third, rows, columns);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = 3.4445 * x[i] - 4.7750 * third[i] + 2.0315 * fifth[i];
    }
  }
  for (double& value : x) value *= 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
  return x;
}

struct Stage {
  std::unique_ptr<Backend> backend;
  ParameterLayout layout = ParameterLayout::ForModel(Shape());
  std::unique_ptr<Buffer> gradient = *backend->Allocate(layout.size());
  std::unique_ptr<WeightStore> weights = *WeightStore::Create(layout.size(), backend.get());

  explicit Stage(std::unique_ptr<Backend> on) : backend(std::move(on)) {
    weights->Write(Noise(layout.size(), 7));
  }
  std::vector<float> After(const InnerConfig& config, int steps) {
    const auto optimizer = *StageOptimizer::Create(config, &layout, backend.get());
    for (int s = 0; s < steps; ++s) {
      backend->Upload(Noise(layout.size(), 100 + static_cast<uint64_t>(s)), gradient->data());
      REQUIRE(optimizer->Step(0.01f, 1, gradient->data(), weights.get()).ok());
    }
    std::vector<float> values(static_cast<size_t>(layout.size()));
    weights->Read(values);
    return values;
  }
};

InnerConfig Muon() {
  InnerConfig config;
  config.optimizer = InnerOptimizer::kMuon;
  config.clip_norm = 0;
  return config;
}

}  // namespace

TEST_CASE("Muon: directions are those of the formulas, tall and wide, on either backend",
          "[model][muon]") {
  const bool reference = GENERATE(true, false);
  const auto backend = reference ? CreateReferenceBackend() : CreateCpuBackend(1);
  const ParameterLayout layout = ParameterLayout::ForModel(Shape());
  const auto step = *OrthogonalStep::Create(layout, backend.get());
  for (const TensorSlot& slot : layout.tensors()) {
    if (!slot.is_hidden_matrix) continue;
    INFO(slot.name);
    const auto n = static_cast<size_t>(slot.size());
    const auto gradient = *backend->Allocate(slot.size());
    const auto momentum = *backend->Allocate(slot.size());
    std::vector<double> wanted_momentum(n);
    for (uint64_t s = 0; s < 2; ++s) {
      const std::vector<float> values = Noise(slot.size(), s);
      backend->Upload(values, gradient->data());
      std::vector<double> blend(n);
      for (size_t i = 0; i < n; ++i) {
        wanted_momentum[i] = 0.9 * wanted_momentum[i] + 0.1 * 0.5 * double{values[i]};
        blend[i] = 0.1 * 0.5 * double{values[i]} + 0.9 * wanted_momentum[i];
      }
      const auto wanted = DirectionInFloat64(blend, static_cast<size_t>(slot.rows),
                                             static_cast<size_t>(slot.columns));
      const float* got = step->Direction(slot, 0.9f, 0.5f, gradient->data(), momentum->data());
      std::vector<float> direction(n);
      backend->Download(got, direction);
      double worst = 0;
      for (size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(direction[i] - wanted[i]));
      CHECK(worst < 1e-4);
    }
  }
}

TEST_CASE("Muon: a matrix without gradient stays where it is", "[model][muon]") {
  const auto backend = CreateCpuBackend(1);
  const ParameterLayout layout = ParameterLayout::ForModel(Shape());
  const auto step = *OrthogonalStep::Create(layout, backend.get());
  const TensorSlot& slot = *layout.Find("model.layers.0.mlp.up_proj.weight");
  const auto zeros = *backend->Allocate(slot.size());
  const auto momentum = *backend->Allocate(slot.size());

  const float* got = step->Direction(slot, 0.9f, 1, zeros->data(), momentum->data());

  for (int64_t i = 0; i < slot.size(); ++i) REQUIRE(got[i] == 0);
}

TEST_CASE("Muon: what is no matrix of a layer goes as with AdamW", "[model][muon]") {
  Stage one(CreateCpuBackend(1)), other(CreateCpuBackend(1));
  InnerConfig adamw = Muon();
  adamw.optimizer = InnerOptimizer::kAdamW;

  const std::vector<float> with_muon = one.After(Muon(), 3), with_adamw = other.After(adamw, 3);

  for (const TensorSlot& slot : one.layout.tensors()) {
    INFO(slot.name);
    const auto at = static_cast<size_t>(slot.offset), n = static_cast<size_t>(slot.size());
    const bool equal =
        std::equal(with_muon.begin() + at, with_muon.begin() + at + n, with_adamw.begin() + at);
    CHECK(equal == !slot.is_hidden_matrix);
  }
}

TEST_CASE("Muon: a step is as long as one of AdamW, and decays", "[model][muon]") {
  Stage stage(CreateCpuBackend(1));
  InnerConfig config = Muon();
  config.weight_decay = GENERATE(0.0f, 0.5f);
  const std::vector<float> before = Noise(stage.layout.size(), 7), after = stage.After(config, 1);

  for (const TensorSlot& slot : stage.layout.tensors()) {
    if (!slot.is_hidden_matrix) continue;
    INFO(slot.name);
    double square = 0;
    for (auto i = static_cast<size_t>(slot.offset);
         i < static_cast<size_t>(slot.offset + slot.size()); ++i) {
      const double kept = double{before[i]} * (1 - 0.01 * double{config.weight_decay});
      square += std::pow(double{after[i]} - kept, 2);
    }
    // √(mean square) of a direction with singular values near 1 is 0.2, where the sides differ
    // little.
    const double size = std::sqrt(square / static_cast<double>(slot.size())) / 0.01;
    CHECK(size > 0.12);
    CHECK(size < 0.25);
  }
}

TEST_CASE("Muon: it can be stopped and gone on with", "[model][muon]") {
  Stage whole(CreateCpuBackend(1)), cut(CreateCpuBackend(1));
  const std::vector<float> wanted = whole.After(Muon(), 2);

  auto first = *StageOptimizer::Create(Muon(), &cut.layout, cut.backend.get());
  const auto step = [&](StageOptimizer& optimizer, uint64_t seed) {
    cut.backend->Upload(Noise(cut.layout.size(), seed), cut.gradient->data());
    REQUIRE(optimizer.Step(0.01f, 1, cut.gradient->data(), cut.weights.get()).ok());
  };
  step(*first, 100);
  std::vector<float> m(static_cast<size_t>(first->moments())), v(m.size());
  first->ReadMoments(m, v);
  auto second = *StageOptimizer::Create(Muon(), &cut.layout, cut.backend.get());
  REQUIRE(second->WriteMoments(1, m, v).ok());
  step(*second, 101);

  std::vector<float> got(wanted.size());
  cut.weights->Read(got);
  CHECK(got == wanted);
}

TEST_CASE("Muon: a block with another rate goes as much further", "[model][muon]") {
  Stage plain(CreateCpuBackend(1)), raised(CreateCpuBackend(1));
  InnerConfig config = Muon();
  config.weight_decay = 0;
  const std::vector<float> before = Noise(plain.layout.size(), 7);
  const std::vector<float> one = plain.After(config, 1);
  const auto optimizer = *StageOptimizer::Create(config, &raised.layout, raised.backend.get());
  optimizer->SetRates({1, 1.5, 1});
  raised.backend->Upload(Noise(raised.layout.size(), 100), raised.gradient->data());
  REQUIRE(optimizer->Step(0.01f, 1, raised.gradient->data(), raised.weights.get()).ok());
  std::vector<float> further(one.size());
  raised.weights->Read(further);

  const TensorSlot& slot = *plain.layout.Find("model.layers.0.mlp.up_proj.weight");
  for (auto i = static_cast<size_t>(slot.offset);
       i < static_cast<size_t>(slot.offset + slot.size()); ++i) {
    REQUIRE(further[i] - before[i] == Approx(1.5 * (one[i] - before[i])).margin(1e-6));
  }
}

}  // namespace skerry
