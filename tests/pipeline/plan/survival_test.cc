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

TEST_CASE("Survival: without anybody who comes, replicas go one by one", "[plan]") {
  const Churn churn{.departures_per_s = 0.01, .refill_s = 0};
  CHECK(SecondsToLoss(1, 3, churn) == Approx(100));
  CHECK(SecondsToLoss(2, 3, churn) == Approx(50 + 100));
  CHECK(SecondsToLoss(3, 3, churn) == Approx(33.3333333 + 50 + 100));
  CHECK(SecondsToLoss(0, 3, churn) == 0);
  CHECK(std::isinf(SecondsToLoss(1, 3, {})));
}

TEST_CASE("Survival: two replicas of which each lost one is replaced", "[plan]") {
  // From two: λ₂ = 0.02; from one: λ = 0.01 against μ = 0.1, so eleven visits on average.
  const Churn churn{.departures_per_s = 0.01, .refill_s = 10};
  const double from_two_to_one = 1 / 0.02;
  const double from_one = (1 + 0.1 * from_two_to_one) / 0.01;
  CHECK(SecondsToLoss(1, 2, churn) == Approx(from_one));
  CHECK(SecondsToLoss(2, 2, churn) == Approx(from_one + from_two_to_one));
  CHECK(SecondsToLoss(2, 2, churn) > SecondsToLoss(2, 2, {.departures_per_s = 0.01}));
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
