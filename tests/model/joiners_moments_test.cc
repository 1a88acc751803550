#include "model/joiners_moments.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/rng.h"

using namespace skerry;

namespace {

struct Moments {
  std::vector<float> first, second;
};

// What AdamW holds after some steps on gradients of any size.
Moments MomentsOf(const InnerConfig& config, size_t n, int steps, uint64_t seed) {
  Rng rng(seed);
  Moments m{std::vector<float>(n), std::vector<float>(n)};
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < n; ++i) {
      const double scale = std::pow(10.0, static_cast<double>(i % 9) - 6);
      const bool is_rare = i % 7 == 0 && step % 5 != 0;
      const auto g = static_cast<float>(is_rare ? 0 : scale * (2 * rng.Uniform() - 0.7));
      m.first[i] = config.beta1 * m.first[i] + (1 - config.beta1) * g;
      m.second[i] = config.beta2 * m.second[i] + (1 - config.beta2) * g * g;
    }
  }
  return m;
}

}  // namespace

TEST_CASE("Moments: both of a parameter lie in the same block, rounded to bf16", "[model][join]") {
  const size_t n = static_cast<size_t>(kMomentsBlock) + 3;
  const Moments m = MomentsOf({}, n, 3, 1);
  const Bytes bytes = EncodeMoments(m.first, m.second);
  REQUIRE(std::ssize(bytes) == MomentsBytes(static_cast<int64_t>(n)));
  Moments read{std::vector<float>(n), std::vector<float>(n)};
  DecodeMoments(bytes, read.first, read.second);
  for (size_t i = 0; i < n; ++i) {
    CHECK(std::abs(read.first[i] - m.first[i]) <= std::abs(m.first[i]) / 256);
    CHECK(std::abs(read.second[i] - m.second[i]) <= std::abs(m.second[i]) / 256);
  }
  // The last three: their first moments, then their second ones.
  Moments last{std::vector<float>(3), std::vector<float>(3)};
  DecodeMoments(std::span<const uint8_t>(bytes).last(12), last.first, last.second);
  CHECK(last.second[2] == read.second[n - 1]);
}

TEST_CASE("Moments: whatever AdamW makes passes, what would make a giant step does not",
          "[model][join]") {
  InnerConfig config;
  config.beta2 = GENERATE(0.95f, 0.999f);
  const ParameterLayout layout = ParameterLayout::ForModel({});
  const Moments m = MomentsOf(config, 5000, GENERATE(1, 30), 2);
  const Bytes honest = EncodeMoments(m.first, m.second);
  CHECK(CheckMomentsBlock(config, layout, 0, honest).ok());

  Moments lie = m;
  SECTION("no second moment") {
    lie.second[17] = 0;
  }
  SECTION("a first moment out of all proportion") {
    lie.first[18] *= 1000;
  }
  SECTION("negative") {
    lie.second[19] = -lie.second[19];
  }
  SECTION("not finite") {
    lie.first[20] = NAN;
  }
  CHECK(
      absl::IsDataLoss(CheckMomentsBlock(config, layout, 0, EncodeMoments(lie.first, lie.second))));
}

TEST_CASE(
    "Moments: of matrices that Muon steps there is one, and it is a mean of clipped gradients",
    "[model][join][muon]") {
  InnerConfig config;
  config.optimizer = InnerOptimizer::kMuon;
  const ParameterLayout layout = ParameterLayout::ForModel({});
  const TensorSlot& matrix = *layout.Find("model.layers.0.self_attn.q_proj.weight");
  const TensorSlot& norm = *layout.Find("model.layers.0.input_layernorm.weight");
  REQUIRE(norm.offset + norm.size() == matrix.offset);
  const auto n = static_cast<size_t>(norm.size());
  Moments m{std::vector<float>(n + 10, 0.5f), std::vector<float>(n + 10, 0.3f)};
  std::fill(m.second.begin() + static_cast<std::ptrdiff_t>(n), m.second.end(), 0.0f);
  const auto check = [&](const Moments& of) {
    return CheckMomentsBlock(config, layout, norm.offset, EncodeMoments(of.first, of.second));
  };
  CHECK(check(m).ok());

  Moments lie = m;
  SECTION("a second one") {
    lie.second[n] = 1;
  }
  SECTION("longer than the clip") {
    lie.first[n] = 2;
  }
  SECTION("of a norm, which AdamW steps") {
    lie.second[n - 1] = 0;
  }
  CHECK(absl::IsDataLoss(check(lie)));
}

TEST_CASE("Moments: no block goes past the stage's end", "[model][join]") {
  const ParameterLayout layout = ParameterLayout::ForModel({});
  const Bytes block(8);
  CHECK(CheckMomentsBlock({}, layout, layout.size() - 2, block).ok());
  CHECK(absl::IsInvalidArgument(CheckMomentsBlock({}, layout, layout.size() - 1, block)));
}
