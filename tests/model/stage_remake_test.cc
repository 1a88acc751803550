#include "model/stage_remake.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace skerry;

TEST_CASE("A lost stage is the mean of its neighbours by their squared gradient norms",
          "[model][neighbours]") {
  const RemadeWeights weights = WeightsOfNeighbours(3, 1);
  CHECK(weights.before == 0.75);
  CHECK(weights.after == 0.25);
  const std::vector<float> before = {4, 8, -4}, after = {8, 0, 4};
  std::vector<float> out(3);
  MeanOfNeighbours(weights, before, after, out);
  CHECK(out == std::vector<float>{5, 6, -2});
}

TEST_CASE("Neighbours of which nothing is known weigh the same", "[model][neighbours][error]") {
  const double bad = GENERATE(0.0, -1.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN());
  const RemadeWeights weights = WeightsOfNeighbours(bad, bad);
  CHECK(weights.before == 0.5);
  CHECK(weights.after == 0.5);
  CHECK(WeightsOfNeighbours(bad, 2).after == 1);
}

TEST_CASE("A sum in parts is the sum of the whole, bit for bit", "[model][neighbours]") {
  const std::vector<float> values = {1e8f, 1.0f, 1e-8f, 3.0f, 1e-3f};
  double whole = 0, parts = 0;
  AddInOrder(values, &whole);
  AddInOrder(std::span(values).first(2), &parts);
  AddInOrder(std::span(values).subspan(2), &parts);
  CHECK(whole == parts);
}

TEST_CASE("The rate of a layer grows by a tenth each time it is made again, four times at most",
          "[model][neighbours]") {
  CHECK(RateOfRemade({}, 2) == 1);
  CHECK(RateOfRemade({2, 3}, 2) == 1.1);
  CHECK(RateOfRemade({2, 3}, 4) == 1);
  CHECK(RateOfRemade({2, 2}, 2) == 1.1 * 1.1);
  CHECK(RateOfRemade({2, 2, 2, 2, 2, 2}, 2) == RateOfRemade({2, 2, 2, 2}, 2));
}
