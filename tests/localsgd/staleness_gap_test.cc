// The stability limit against closed forms, a computed table and the behaviour of real outer steps.
#include "localsgd/staleness_gap.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>

#include "localsgd/outer_optimizer.h"

namespace skerry {
namespace {

TEST_CASE("StabilityLimit: closed forms", "[localsgd]") {
  for (const double beta : {0.0, 0.1, 0.5, 0.9, 0.99}) {
    CAPTURE(beta);
    CHECK(StabilityLimit(OuterRule::kHeavyBall, beta, 0) == Approx(2 * (1 + beta)).epsilon(1e-9));
    CHECK(StabilityLimit(OuterRule::kHeavyBall, beta, 1) == Approx(1 - beta).epsilon(1e-9));
    CHECK(StabilityLimit(OuterRule::kNesterov, beta, 0) ==
          Approx(2 * (1 + beta) / (1 + 2 * beta)).epsilon(1e-9));
  }
  for (int s = 0; s < 10; ++s) {
    const double want = 2 * std::sin(std::acos(-1.0) / (4 * s + 2));
    CHECK(StabilityLimit(OuterRule::kNesterov, 0, s) == Approx(want).epsilon(1e-9));
  }
}

TEST_CASE("StabilityLimit: the table of roots", "[localsgd]") {
  const std::array<double, 8> betas = {0, .1, .2, .3, .5, .6, .8, .9};
  struct Row {
    OuterRule rule;
    int staleness;
    std::array<double, 8> limits;
  };
  const Row rows[] = {{OuterRule::kHeavyBall, 2, {.618, .547, .477, .409, .281, .220, .105, .051}},
                      {OuterRule::kHeavyBall, 3, {.445, .393, .343, .293, .199, .155, .072, .035}},
                      {OuterRule::kNesterov, 1, {1.0, .901, .806, .718, .562, .490, .345, .253}},
                      {OuterRule::kNesterov, 2, {.618, .555, .492, .430, .312, .255, .143, .081}},
                      {OuterRule::kNesterov, 3, {.445, .400, .354, .308, .217, .173, .089, .046}}};
  for (const Row& row : rows) {
    for (size_t i = 0; i < betas.size(); ++i) {
      CAPTURE(row.staleness, betas[i]);
      CHECK(StabilityLimit(row.rule, betas[i], row.staleness) ==
            Approx(row.limits[i]).margin(0.0006));
    }
  }
}

TEST_CASE("StalenessGap: acts only beyond 0.8 of the limit", "[localsgd]") {
  const GapConfig fresh;
  CHECK(StalenessGap(fresh, OuterRule::kNesterov, 0.7, 0.9) == 1.0);
  CHECK(StalenessGap(fresh, OuterRule::kNesterov, 2.0, 0.0) == Approx(2.0 / 1.6));
  const GapConfig stale = {.enabled = true, .staleness = 1, .contraction = 0.5};
  CHECK(StalenessGap(stale, OuterRule::kHeavyBall, 1.0, 0.5) == Approx(0.5 / (0.8 * 0.5)));
  CHECK(StalenessGap({.enabled = false}, OuterRule::kNesterov, 9.0, 0.9) == 1.0);
}

// Outer steps on ½·x² whose round contracts by κ, each delta s rounds old: grows or shrinks?
bool Diverges(OuterRule rule, float alpha, float beta, float kappa, int staleness) {
  OuterOptimizer optimizer(
      {.learning_rate = alpha, .momentum = beta, .rule = rule, .gap = {.enabled = false}}, 1);
  std::vector<float> x = {1.0f};
  std::deque<float> deltas(static_cast<size_t>(staleness), 0.0f);
  double before = 0, after = 0;
  for (int round = 0; round < 3000; ++round) {
    deltas.push_back(kappa * x[0]);
    REQUIRE(optimizer.Step(std::array{deltas.front()}, x).ok());
    deltas.pop_front();
    if (std::fabs(x[0]) > 1e12f) return true;
    if (round >= 500 && round < 550) before = std::max(before, std::fabs(double{x[0]}));
    if (round >= 2950) after = std::max(after, std::fabs(double{x[0]}));
  }
  return after > before;
}

TEST_CASE("OuterOptimizer: on a quadratic it diverges where StabilityLimit says", "[localsgd]") {
  const auto rule = GENERATE(OuterRule::kNesterov, OuterRule::kHeavyBall);
  const int staleness = GENERATE(0, 1, 2);
  const float beta = GENERATE(0.0f, 0.5f, 0.9f);
  for (const float kappa : {0.1f, 0.5f, 0.9f}) {
    CAPTURE(staleness, beta, kappa);
    const double limit = StabilityLimit(rule, double{beta}, staleness) / kappa;
    CHECK_FALSE(Diverges(rule, static_cast<float>(0.98 * limit), beta, kappa, staleness));
    CHECK(Diverges(rule, static_cast<float>(1.02 * limit), beta, kappa, staleness));
  }
}

}  // namespace
}  // namespace skerry
