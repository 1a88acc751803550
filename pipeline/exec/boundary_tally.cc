#include "pipeline/exec/boundary_tally.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace skerry {

float Log2Rms(std::span<const uint8_t> floats) {
  constexpr size_t kLanes = 8;  // so that a compiler may use vectors without reordering a sum
  const size_t count = floats.size() / sizeof(float);
  if (count == 0) return kBoundaryLog2Min;
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    std::array<float, kLanes> values;
    std::memcpy(values.data(), floats.data() + i * sizeof(float), sizeof(values));
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(values[lane]) * static_cast<double>(values[lane]);
    }
  }
  double sum = 0;
  for (; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, floats.data() + i * sizeof(float), sizeof(value));
    sum += double{value} * double{value};
  }
  for (const double lane : sums) sum += lane;
  // A float's square is far from the end of float64: what is not finite here was not before.
  if (!std::isfinite(sum)) return std::numeric_limits<float>::infinity();
  const double log2 = sum > 0 ? 0.5 * std::log2(sum / static_cast<double>(count)) : -1e9;
  return std::max(static_cast<float>(log2), kBoundaryLog2Min);
}

void BoundaryTally::Note(int64_t step, const NodeId& other, bool is_gradient, bool was_sent,
                         float log2_rms) {
  const int64_t period = step / kBoundaryPeriodSteps;
  if (period < told_below_) return;
  auto& sides = periods_[period];
  const Side side{other, is_gradient, was_sent};
  if (sides.size() >= kBoundarySidesMax && !sides.contains(side)) return;
  Sum& sum = sides[side];
  ++sum.count;
  sum.log2 += double{std::clamp(log2_rms, kBoundaryLog2Min, kBoundaryLog2Max)};
}

std::vector<BoundarySizes> BoundaryTally::TakeBefore(int64_t step) {
  const int64_t below = step / kBoundaryPeriodSteps;
  std::vector<BoundarySizes> over;
  while (!periods_.empty() && periods_.begin()->first < below) {
    const auto period = periods_.extract(periods_.begin());
    BoundarySizes told{period.key() * kBoundaryPeriodSteps, {}};
    for (const auto& [side, sum] : period.mapped()) {
      const auto& [other, is_gradient, was_sent] = side;
      told.sides.push_back(
          {other, is_gradient, was_sent, sum.count, static_cast<float>(sum.log2 / sum.count)});
    }
    over.push_back(std::move(told));
  }
  told_below_ = std::max(told_below_, below);
  return over;
}

}  // namespace skerry
