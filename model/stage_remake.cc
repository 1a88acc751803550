#include "model/stage_remake.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace skerry {

double RateOfRemade(const std::vector<int32_t>& remade, int32_t layer) {
  const auto times = std::count(remade.begin(), remade.end(), layer);
  double rate = 1;
  for (int64_t i = 0; i < std::min<int64_t>(times, kRemadeTimesMax); ++i) rate *= kRemadeRate;
  return rate;
}

RemadeWeights WeightsOfNeighbours(double before, double after) {
  if (!std::isfinite(before) || before < 0) before = 0;
  if (!std::isfinite(after) || after < 0) after = 0;
  const double sum = before + after;
  if (sum <= 0 || !std::isfinite(sum)) return {};
  return {before / sum, 1 - before / sum};
}

void AddInOrder(std::span<const float> values, double* sum) {
  for (const float value : values) *sum += double{value};
}

void MeanOfNeighbours(const RemadeWeights& weights, std::span<const float> before,
                      std::span<const float> after, std::span<float> out) {
  SKERRY_CHECK(before.size() == out.size() && after.size() == out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<float>(weights.before * double{before[i]} + weights.after * double{after[i]});
  }
}

}  // namespace skerry
