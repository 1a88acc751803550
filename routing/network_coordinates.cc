#include "routing/network_coordinates.h"

#include <algorithm>
#include <cmath>

#include "common/rng.h"

namespace skerry {
namespace {

constexpr int kSweeps = 150;
constexpr double kFirstStep = 0.5;
constexpr double kLastStep = 0.02;
constexpr double kSpread = 0.05;  // s: where bodies start, at random

}  // namespace

NetworkCoordinates::NetworkCoordinates(int32_t nodes, const std::vector<RoundTrip>& readings)
    : bodies_(static_cast<size_t>(nodes)) {
  Rng rng(1, "network coordinates");
  for (Body& body : bodies_) {
    for (double& x : body.at) x = kSpread * (rng.Uniform() - 0.5);
  }
  std::vector<RoundTrip> order = readings;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
  const double cooling = std::pow(kLastStep / kFirstStep, 1.0 / kSweeps);
  double step = kFirstStep;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (const RoundTrip& reading : order) Relax(reading, step);
    step *= cooling;
  }
}

void NetworkCoordinates::Relax(const RoundTrip& reading, double step) {
  Body& a = bodies_[static_cast<size_t>(reading.a)];
  Body& b = bodies_[static_cast<size_t>(reading.b)];
  std::array<double, kDimensions> way{};
  double length = 0;
  for (size_t d = 0; d < kDimensions; ++d) {
    way[d] = a.at[d] - b.at[d];
    length += way[d] * way[d];
  }
  length = std::sqrt(length);
  const double error = reading.rtt_s - (length + a.height + b.height);
  const double push = 0.5 * step * error;
  for (size_t d = 0; d < kDimensions && length > 0; ++d) {
    a.at[d] += push * way[d] / length;
    b.at[d] -= push * way[d] / length;
  }
  a.height = std::max(0.0, a.height + 0.5 * push);
  b.height = std::max(0.0, b.height + 0.5 * push);
}

double NetworkCoordinates::Predict(int32_t a, int32_t b) const {
  const Body& from = bodies_[static_cast<size_t>(a)];
  const Body& to = bodies_[static_cast<size_t>(b)];
  double square = 0;
  for (size_t d = 0; d < kDimensions; ++d) {
    square += (from.at[d] - to.at[d]) * (from.at[d] - to.at[d]);
  }
  return std::sqrt(square) + from.height + to.height;
}

}  // namespace skerry
