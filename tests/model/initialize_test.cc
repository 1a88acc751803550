#include "model/initialize.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/model/tiny_run.h"

namespace skerry {
namespace {

std::vector<float> Initial(uint64_t seed, const TransformerConfig& config,
                           const ParameterLayout& layout) {
  std::vector<float> values(static_cast<size_t>(layout.size()));
  InitializeParameters(seed, config, layout, values);
  return values;
}

std::vector<float> InitialTensor(const std::string& name, int64_t rows, int64_t columns) {
  TensorSlot slot;
  slot.name = name;
  slot.rows = rows;
  slot.columns = columns;
  slot.is_residual_output = name == "o";
  std::vector<float> values(static_cast<size_t>(slot.size()));
  InitializeTensor(1, 8, slot, values);
  return values;
}

double Moment(const std::vector<float>& values, int power) {
  double sum = 0;
  for (const float value : values) sum += std::pow(static_cast<double>(value), power);
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("Initialize: a stage holds the same values as the whole model", "[model]") {
  const TransformerConfig config = TinyRun().model;
  const auto model = ParameterLayout::ForModel(config);
  const std::vector<float> whole = Initial(3, config, model);
  std::vector<float> together(whole.size());

  for (const auto& [first, last] : {std::pair{0, 2}, std::pair{2, 5}}) {
    const auto stage = ParameterLayout::ForStage(config, first, last, first == 0);
    CopyTensors(stage, Initial(3, config, stage), model, together);
  }

  CHECK(together == whole);
  CHECK(Initial(4, config, model) != whole);
}

TEST_CASE("Initialize: matrices are normal(0, 0.02), residual outputs smaller by depth",
          "[model]") {
  const std::vector<float> q = InitialTensor("q", 300, 300);
  const std::vector<float> o = InitialTensor("o", 300, 300);

  CHECK(Moment(q, 1) == Approx(0).margin(3e-4));
  CHECK(std::sqrt(Moment(q, 2)) == Approx(0.02).epsilon(0.01));
  CHECK(Moment(q, 4) / std::pow(Moment(q, 2), 2) == Approx(2.9).margin(0.1));
  CHECK(std::sqrt(Moment(o, 2)) == Approx(0.02 / 4).epsilon(0.01));
}

TEST_CASE("Initialize: norms are one", "[model]") {
  CHECK(InitialTensor("n", 5, 1) == std::vector<float>(5, 1.0f));
}

TEST_CASE("Initialize: the first values of a run never change", "[model]") {
  const std::vector<float> q = InitialTensor("q", 1, 3);

  CHECK(q == std::vector{0x1.99f47ap-5f, -0x1.4d451ep-7f, -0x1.d65c28p-8f});
}

}  // namespace skerry
