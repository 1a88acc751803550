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
  const Moments m = MomentsOf(config, 5000, GENERATE(1, 30), 2);
  const Bytes honest = EncodeMoments(m.first, m.second);
  CHECK(CheckMomentsBlock(config, honest).ok());

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
  CHECK(absl::IsDataLoss(CheckMomentsBlock(config, EncodeMoments(lie.first, lie.second))));
}
