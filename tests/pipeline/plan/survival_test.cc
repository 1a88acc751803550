#include "pipeline/plan/survival.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/ids.h"

namespace skerry {
namespace {

PipelinePlan Stages(const std::vector<std::pair<int, int>>& live_of_planned) {
  PipelinePlan plan;
  uint32_t next = 1;
  int32_t layer = 0;
  for (const auto& [live, planned] : live_of_planned) {
    StageAssignment stage{layer, layer + 1, {}};
    ++layer;
    for (int r = 0; r < planned; ++r) {
      stage.replicas.push_back(TestNodeId(next++));
      if (r >= live) plan.dead.push_back(stage.replicas.back());
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

TEST_CASE("Survival: without anybody who comes, all must have left within the time", "[plan]") {
  const Churn churn{.departures_per_s = 0.01, .refill_s = 0};
  const double one_has = 1 - std::exp(-0.5);
  CHECK(LossProbability(1, 3, churn, 50) == Approx(one_has).epsilon(0.01));
  CHECK(LossProbability(2, 3, churn, 50) == Approx(one_has * one_has).epsilon(0.02));
  CHECK(LossProbability(3, 3, churn, 50) == Approx(std::pow(one_has, 3)).epsilon(0.03));
  CHECK(LossProbability(0, 3, churn, 50) == 1);
  CHECK(LossProbability(1, 3, {}, 50) == 0);
  CHECK(LossProbability(1, 3, churn, 1e6) == Approx(1));
}

TEST_CASE("Survival: who is replaced soon is lost seldom", "[plan]") {
  // One of two is left: it leaves first, or another comes first.
  const Churn churn{.departures_per_s = 0.001, .refill_s = 10};
  const double from_one = LossProbability(1, 2, churn, 100);
  CHECK(from_one > 0.001 / (0.001 + 0.1));
  CHECK(from_one < 0.015);
  // Both are there: 0.2 departures in the time, of which a hundredth is not made good.
  CHECK(LossProbability(2, 2, churn, 100) == Approx(0.2 * 0.0099).epsilon(0.15));
  CHECK(from_one < LossProbability(1, 2, {.departures_per_s = 0.001}, 100));
}

TEST_CASE("Survival: evenly spread replicas put the least at risk", "[plan]") {
  const Churn churn{.departures_per_s = 1e-4, .refill_s = 600};
  const auto loss = [&](const std::vector<std::pair<int, int>>& stages) {
    return ExpectedLossSeconds(Stages(stages), churn, 3600, 20000);
  };
  CHECK(loss({{3, 3}, {2, 3}, {2, 3}}) < loss({{3, 3}, {3, 3}, {1, 3}}));
  // With stage 0 the run ends, so it is the one to keep.
  CHECK(loss({{3, 3}, {2, 3}, {2, 3}}) < loss({{2, 3}, {3, 3}, {2, 3}}));
  CHECK(loss({{3, 3}, {3, 3}, {0, 3}}) < loss({{3, 3}, {3, 3}, {1, 3}}));  // it is lost already
  CHECK(ExpectedLossSeconds(Stages({{1, 3}, {1, 3}}), {}, 3600, 20000) == 0);
  CHECK(loss({{1, 1}}) <= 20000);
}

}  // namespace
}  // namespace skerry
