#include "sim/flow_delay.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace skerry {
namespace {

constexpr double kJitterSigma = 0.8;
constexpr size_t kQuantiles = 1024;
constexpr int kTimeoutDoublingsMax = 6;

double NormalQuantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

const std::array<double, kQuantiles>& JitterQuantiles() {
  static const std::array<double, kQuantiles> quantiles = [] {
    std::array<double, kQuantiles> values{};
    for (size_t i = 0; i < kQuantiles; ++i) {
      values[i] =
          std::exp(kJitterSigma * NormalQuantile((static_cast<double>(i) + 0.5) / kQuantiles));
    }
    return values;
  }();
  return quantiles;
}

}  // namespace

Duration DrawJitter(Duration median, Rng& rng) {
  if (median <= Duration()) return Duration();
  const double factor = JitterQuantiles()[rng.Next() >> 54];
  return Duration::Nanos(static_cast<int64_t>(factor * static_cast<double>(median.nanos())));
}

Duration DrawLossDelay(double segments, double loss, Duration round_trip, Rng& rng) {
  if (loss <= 0) return Duration();
  segments = std::max(1.0, std::ceil(segments));
  const double none = segments == 1 ? 1 - loss : std::pow(1 - loss, segments);
  const double u = rng.Uniform();
  if (u < none) return Duration();
  Duration timeout = RetransmissionTimeout(round_trip);
  Duration delay;
  if (segments == 1) {
    delay = timeout;
  } else {
    const bool last = rng.Uniform() < loss / (1 - none);
    delay = last ? round_trip * 2 : round_trip + round_trip / 4;
  }
  for (int i = 0; i < kTimeoutDoublingsMax && rng.Uniform() < loss; ++i) {
    timeout = timeout * 2;
    delay += timeout;
  }
  return delay;
}

}  // namespace skerry
