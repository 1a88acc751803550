// Models of every family against PyTorch's transformers: configurations as they write them, weights
// by a formula, and their logits (data/families.json, made by tools/compare/fixtures.py).
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/backend.h"
#include "model/decoder.h"
#include "model/export.h"
#include "tests/model/temporary_directory.h"

namespace skerry {
namespace {

// tools/compare/families.py, values_of.
std::vector<float> ValuesOf(const TensorSlot& slot) {
  uint32_t seed = 2166136261u;
  for (const char c : slot.name) seed = (seed ^ static_cast<uint8_t>(c)) * 16777619u;
  std::vector<float> values;
  for (uint32_t i = 0; i < static_cast<uint32_t>(slot.size()); ++i) {
    uint32_t h = seed + i * 2654435761u;
    h ^= h >> 16;
    h *= 0x45d9f3bu;
    h ^= h >> 16;
    const double value = h / 4294967296.0 - 0.5;
    const bool norm = slot.name.ends_with("norm.weight");
    values.push_back(static_cast<float>(norm ? 1 + 0.4 * value : 0.6 * value));
  }
  return values;
}

std::vector<float> ParametersOf(const TransformerConfig& config) {
  std::vector<float> all;
  const auto layout = ParameterLayout::ForModel(config);
  for (const TensorSlot& slot : layout.tensors()) {
    const auto values = ValuesOf(slot);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace

TEST_CASE("Families: logits are those of transformers within 1e-4", "[model][families]") {
  const auto families = nlohmann::json::parse(ReadFile(SKERRY_FAMILIES_FIXTURE));
  REQUIRE(families.size() == 8);
  for (const auto& family : families) {
    INFO(family.at("family"));
    const auto config = ParseHuggingFaceConfig(family.at("config").dump());
    INFO((config.ok() ? "" : std::string(config.status().message())));
    REQUIRE(config.ok());
    const std::vector<int32_t> tokens = family.at("tokens");
    const auto vocab = static_cast<size_t>(config->vocab);
    std::vector<float> logits(tokens.size() * vocab);
    const auto backend = CreateCpuBackend(1);
    const auto decoder = *Decoder::Create(*config, ParametersOf(*config), 64, backend.get());

    REQUIRE(decoder->Logits(tokens, 1, logits).ok());

    double difference = 0, size = 0;
    const std::vector<size_t> rows = family.at("rows");
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<double> want = family.at("logits")[r];
      for (size_t i = 0; i < want.size(); ++i) {
        difference = std::max(difference, std::fabs(want[i] - logits[rows[r] * vocab + i]));
        size = std::max(size, std::fabs(want[i]));
      }
    }
    CHECK(size > 0.5);
    CHECK(difference < 1e-4 * size);
  }
}

TEST_CASE("Families: what is written is read as the same model", "[model][families]") {
  for (const auto& family : nlohmann::json::parse(ReadFile(SKERRY_FAMILIES_FIXTURE))) {
    INFO(family.at("family"));
    const TransformerConfig config = *ParseHuggingFaceConfig(family.at("config").dump());

    const auto again = ParseHuggingFaceConfig(HuggingFaceConfigText(config));

    REQUIRE(again.ok());
    CHECK(*again == config);
  }
}

}  // namespace skerry
