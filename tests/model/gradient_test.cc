// The whole model's gradient against finite differences of its loss.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

// SGD with rate 1 and no clipping: parameters before − after are the gradient itself.
struct Variant {
  bool tied, biases, stretched;
  int32_t ladder = 0;
};

RunConfig GradientRun(const Variant& variant) {
  RunConfig config = TinyRun();
  config.model.ladder = variant.ladder;
  config.model.layers = 2 * config.model.layers_together();
  config.model.tied_head = variant.tied;
  config.model.qkv_bias = variant.biases;
  if (variant.stretched) {
    config.model.rope_scaling = RopeScaling::kLlama3;
    config.model.rope_factor = 4;
    config.model.rope_original_context = 16;
  }
  config.inner.optimizer = InnerOptimizer::kSgd;
  config.inner.learning_rate = config.inner.min_learning_rate = 1.0f;
  config.inner.warmup_steps = 0;
  config.inner.clip_norm = 0;
  return config;
}

// Larger than at the start of training, so that every path carries signal above float32 noise.
std::vector<float> LivelyParameters(const ParameterLayout& layout) {
  std::vector<float> values(static_cast<size_t>(layout.size()));
  Rng rng(5, "lively");
  for (const TensorSlot& slot : layout.tensors()) {
    const bool norm = slot.columns == 1;
    for (int64_t i = 0; i < slot.size(); ++i) {
      const double value = norm ? 1 + 0.2 * rng.Normal() : 0.3 * rng.Normal();
      values[static_cast<size_t>(slot.offset + i)] = static_cast<float>(value);
    }
  }
  return values;
}

class GradientProbe {
 public:
  explicit GradientProbe(const Variant& variant)
      : backend_(CreateReferenceBackend()),
        stages_(GradientRun(variant),
                {std::max(1, variant.ladder), 2 * std::max(1, variant.ladder)}, backend_.get()) {
    Write(LivelyParameters(layout_of(0)), LivelyParameters(layout_of(1)));
  }

  const ParameterLayout& layout_of(size_t stage) { return stages_.stage(stage).layout(); }

  float LossAt(size_t stage, size_t index, float shift) {
    std::vector<float> moved = values_[stage];
    moved[index] += shift;
    stages_.stage(stage).WriteParameters(moved);
    std::vector<float> gradient;
    const float loss = stages_.ForwardAndLoss({0, 0}, gradient);
    for (size_t i = 0; i < 2; ++i) stages_.stage(i).Discard({0, 0});
    stages_.stage(stage).WriteParameters(values_[stage]);
    return loss;
  }

  // ∂loss/∂parameters of both stages.
  std::vector<std::vector<float>> Gradients() {
    stages_.Step(0, {0});
    std::vector<std::vector<float>> gradients;
    for (size_t stage = 0; stage < 2; ++stage) {
      std::vector<float> after(values_[stage].size());
      stages_.stage(stage).ReadParameters(after);
      for (size_t i = 0; i < after.size(); ++i) after[i] = values_[stage][i] - after[i];
      gradients.push_back(after);
      stages_.stage(stage).WriteParameters(values_[stage]);
    }
    return gradients;
  }

 private:
  void Write(std::vector<float> first, std::vector<float> second) {
    values_ = {std::move(first), std::move(second)};
    for (size_t i = 0; i < 2; ++i) stages_.stage(i).WriteParameters(values_[i]);
  }
  std::unique_ptr<Backend> backend_;
  ChainedStages stages_;
  std::vector<std::vector<float>> values_;
};

}  // namespace

TEST_CASE("StageTrainer: gradients agree with finite differences in every tensor", "[model]") {
  GradientProbe probe(GENERATE(Variant{false, false, false}, Variant{true, false, false},
                               Variant{false, true, true}, Variant{true, true, false, 1},
                               Variant{false, false, true, 2}));
  const auto gradients = probe.Gradients();
  constexpr int kProbesPerTensor = 6;
  constexpr float kShift = 0x1.0p-7f;  // float32 losses: about 1e-5 of noise in a difference
  Rng rng(3, "probes");

  for (size_t stage = 0; stage < 2; ++stage) {
    for (const TensorSlot& slot : probe.layout_of(stage).tensors()) {
      for (int i = 0; i < kProbesPerTensor; ++i) {
        const auto index =
            static_cast<size_t>(slot.offset) + rng.Below(static_cast<uint64_t>(slot.size()));
        const double difference = static_cast<double>(probe.LossAt(stage, index, kShift)) -
                                  static_cast<double>(probe.LossAt(stage, index, -kShift));
        INFO(slot.name << " [" << index - static_cast<size_t>(slot.offset) << "]");
        CHECK(gradients[stage][index] ==
              Approx(difference / (2 * kShift)).epsilon(0.02).margin(3e-4));
      }
    }
  }
}

TEST_CASE("StageTrainer: a tied matrix gets the gradient of both its uses", "[model]") {
  GradientProbe tied(Variant{true, false, false});
  const auto gradients = tied.Gradients();
  const TensorSlot& embedding = *tied.layout_of(0).Find("model.embed_tokens.weight");

  // The head's part reaches every row; the embedding's part only those of tokens that occur.
  int64_t rows_with_gradient = 0;
  for (int64_t row = 0; row < embedding.rows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < embedding.columns; ++i) {
      sum += std::abs(gradients[0][static_cast<size_t>(row * embedding.columns + i)]);
    }
    rows_with_gradient += sum > 0;
  }
  CHECK(rows_with_gradient == embedding.rows);
}

}  // namespace skerry
