// The outer step, worked by hand.
#include "localsgd/outer_optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/localsgd/stage_of_replicas.h"

namespace skerry {
namespace {

TEST_CASE("OuterOptimizer: two Nesterov steps by hand", "[localsgd]") {
  OuterOptimizer optimizer({.learning_rate = 0.5f, .momentum = 0.5f}, 1);
  std::vector<float> x = {8.0f};
  REQUIRE(optimizer.Step(std::vector{2.0f}, x).ok());  // m = 2, step = ½(2 + 1)
  CHECK(x[0] == 6.5f);
  REQUIRE(optimizer.Step(std::vector{2.0f}, x).ok());  // m = 3, step = ½(2 + 1.5)
  CHECK(x[0] == 4.75f);
  CHECK(optimizer.outer_step() == 2);
}

TEST_CASE("OuterOptimizer: two heavy-ball steps by hand", "[localsgd]") {
  OuterOptimizer optimizer({.learning_rate = 0.5f, .momentum = 0.5f, .rule = OuterRule::kHeavyBall},
                           1);
  std::vector<float> x = {8.0f};
  REQUIRE(optimizer.Step(std::vector{2.0f}, x).ok());
  CHECK(x[0] == 7.0f);
  REQUIRE(optimizer.Step(std::vector{2.0f}, x).ok());
  CHECK(x[0] == 5.5f);
}

TEST_CASE("OuterOptimizer: the gap divides the pseudo-gradient", "[localsgd]") {
  // Nesterov, β = 0, s = 0: limit 2, so Λ = 3.2 / 1.6 = 2.
  OuterOptimizer optimizer({.learning_rate = 3.2f, .momentum = 0.0f}, 1);
  CHECK(optimizer.gap() == Approx(2.0f));
  std::vector<float> x = {0.0f};
  REQUIRE(optimizer.Step(std::vector{1.0f}, x).ok());
  CHECK(x[0] == Approx(-1.6f));
}

TEST_CASE("OuterOptimizer: the clip bounds the step by the parameters' size", "[localsgd]") {
  // The first step of heavy-ball momentum is one without.
  const auto [rule, momentum] = GENERATE(table<OuterRule, float>({{OuterRule::kNesterov, 0.0f},
                                                                  {OuterRule::kHeavyBall, 0.0f},
                                                                  {OuterRule::kHeavyBall, 0.1f}}));
  const OuterOptimizerConfig config = {
      .learning_rate = 1.0f, .momentum = momentum, .rule = rule, .gap = {}, .clip_ratio = 0.1f};
  OuterOptimizer optimizer(config, 2);
  std::vector<float> x = {3.0f, 4.0f};  // norm 5: the step's norm may be 0.5
  REQUIRE(optimizer.Step(std::vector{30.0f, 40.0f}, x).ok());
  CHECK(x[0] == Approx(2.7f));
  CHECK(x[1] == Approx(3.6f));
  CHECK(optimizer.velocity().size() == (momentum > 0 ? 2 : 0));  // only where a later step reads it
  if (momentum > 0) CHECK(optimizer.velocity()[0] == Approx(0.3f));

  OuterOptimizer small(config, 2);
  std::vector<float> y = {3.0f, 4.0f};
  REQUIRE(small.Step(std::vector{0.25f, -0.25f}, y).ok());
  CHECK(y == std::vector{2.75f, 4.25f});

  OuterOptimizer fresh(config, 2);
  std::vector<float> zeros = {0.0f, 0.0f};
  REQUIRE(fresh.Step(std::vector{1.0f, 2.0f}, zeros).ok());
  CHECK(zeros == std::vector{-1.0f, -2.0f});
}

TEST_CASE("OuterOptimizer: tiles give the bits of the whole step", "[localsgd]") {
  OuterOptimizerConfig config;
  config.clip_ratio = 0.01f;
  constexpr int64_t kSize = 1000;
  OuterOptimizer whole(config, kSize), tiled(config, kSize);
  auto x = RandomVector(kSize, 1), y = x;
  for (uint64_t step = 0; step < 3; ++step) {
    const auto d = RandomVector(kSize, 10 + step);
    REQUIRE(whole.Step(d, x).ok());
    OuterOptimizer::Norms norms;
    const std::span<const float> all(d);
    for (size_t i = 0; i < kSize; i += 300) {
      const size_t n = std::min<size_t>(300, kSize - i);
      tiled.Measure(static_cast<int64_t>(i), all.subspan(i, n), std::span(y).subspan(i, n), &norms);
    }
    const float clip = tiled.ClipFactor(norms);
    CHECK(clip < 1);
    for (size_t i = 0; i < kSize; i += 300) {
      const size_t n = std::min<size_t>(300, kSize - i);
      tiled.ApplyTile(static_cast<int64_t>(i), all.subspan(i, n), clip, std::span(y).subspan(i, n));
    }
    tiled.FinishStep();
    CHECK(SameBits(x, y));
  }
}

TEST_CASE("OuterOptimizer: a bad pseudo-gradient changes nothing", "[localsgd][error]") {
  OuterOptimizer optimizer({}, 2);
  std::vector<float> theta = {1.0f, 2.0f};
  const auto bad = GENERATE(std::vector{1.0f}, std::vector{1.0f, NAN}, std::vector{INFINITY, 0.0f});

  CHECK(absl::IsInvalidArgument(optimizer.Step(bad, theta)));

  CHECK(theta == std::vector{1.0f, 2.0f});
  CHECK(optimizer.velocity()[0] == 0.0f);
  CHECK(optimizer.outer_step() == 0);
}

}  // namespace
}  // namespace skerry
