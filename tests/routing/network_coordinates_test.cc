// Round trips that nobody measured, from a map.
#include "routing/network_coordinates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "common/rng.h"
#include "routing/link_estimator.h"

using namespace skerry;

namespace {

// Places on a globe, and a line to the nearest exchange for everybody: delays the map cannot hold
// exactly.
struct World {
  explicit World(int32_t nodes) {
    Rng rng(7, "world");
    for (int32_t i = 0; i < nodes; ++i) {
      const auto city = static_cast<double>(rng.Below(12));
      longitude.push_back(city * 0.52 + 0.02 * rng.Uniform());
      latitude.push_back(std::sin(city * 2.4) + 0.02 * rng.Uniform());
      line.push_back(0.004 + 0.02 * rng.Uniform());
    }
  }
  double Rtt(int32_t a, int32_t b) const {
    const auto at = [&](const std::vector<double>& v, int32_t i) {
      return v[static_cast<size_t>(i)];
    };
    const double angle =
        std::acos(std::clamp(std::sin(at(latitude, a)) * std::sin(at(latitude, b)) +
                                 std::cos(at(latitude, a)) * std::cos(at(latitude, b)) *
                                     std::cos(at(longitude, a) - at(longitude, b)),
                             -1.0, 1.0));
    return 0.085 * angle + at(line, a) + at(line, b);
  }
  std::vector<double> longitude, latitude, line;
};

// Everybody's neighbours on eight rings in random orders.
std::vector<std::pair<int32_t, int32_t>> Rings(int32_t nodes) {
  Rng rng(3, "rings");
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int ring = 0; ring < 8; ++ring) {
    std::vector<int32_t> order(static_cast<size_t>(nodes));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
    for (size_t i = 0; i < order.size(); ++i) {
      pairs.emplace_back(order[i], order[(i + 1) % order.size()]);
    }
  }
  return pairs;
}

double MedianError(const World& world, int32_t nodes, const NetworkCoordinates& map) {
  std::vector<double> errors;
  for (int32_t a = 0; a < nodes; ++a) {
    for (int32_t b = 0; b < a; ++b) {
      errors.push_back(std::abs(map.Predict(a, b) / world.Rtt(a, b) - 1));
    }
  }
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2),
                   errors.end());
  return errors[errors.size() / 2];
}

}  // namespace

TEST_CASE("Sixteen partners each put three hundred nodes on the map", "[coordinates]") {
  constexpr int32_t kNodes = 300;
  const World world(kNodes);
  std::vector<RoundTrip> readings;
  for (const auto& [i, j] : Rings(kNodes)) readings.push_back({i, j, world.Rtt(i, j)});
  CHECK(MedianError(world, kNodes, NetworkCoordinates(kNodes, readings)) < 0.1);
}

TEST_CASE("Without readings nothing is known, and nothing breaks", "[coordinates]") {
  const NetworkCoordinates map(3, {});
  CHECK(map.Predict(0, 2) >= 0);
  CHECK(NetworkCoordinates(2, {{0, 1, 0.0}}).Predict(0, 1) < 0.01);
}

TEST_CASE("A sparsely measured fleet has no missing link, and believable ones", "[coordinates]") {
  constexpr int32_t kNodes = 120;
  const World world(kNodes);
  std::vector<NodeId> nodes;
  for (int32_t i = 0; i < kNodes; ++i) nodes.push_back(TestNodeId(static_cast<uint32_t>(i)));
  LinkEstimator estimator;
  for (const auto& [i, j] : Rings(kNodes)) {
    const auto a = static_cast<size_t>(i);
    const auto b = static_cast<size_t>(j);
    REQUIRE(estimator.Add(nodes[a], nodes[b], world.Rtt(i, j), 1e6, Instant()).ok());
    REQUIRE(estimator.Add(nodes[b], nodes[a], world.Rtt(i, j), 1e6, Instant()).ok());
  }
  const LinkMatrix links = estimator.Estimate(nodes, Instant());
  std::vector<double> errors;
  for (int32_t i = 0; i < kNodes; ++i) {
    for (int32_t j = 0; j < kNodes; ++j) {
      if (i == j) continue;
      REQUIRE(links.At(i, j).usable());
      errors.push_back(std::abs(links.At(i, j).rtt_s / world.Rtt(i, j) - 1));
    }
  }
  std::sort(errors.begin(), errors.end());
  CHECK(errors[errors.size() / 2] < 0.15);
}
