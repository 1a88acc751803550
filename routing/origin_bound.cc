#include "routing/origin_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace skerry {

double OriginSeconds(const SkipPipeProblem& problem, int32_t node, double tour_s,
                     int32_t microbatches) {
  const double forward_s = problem.forward_s[static_cast<size_t>(node)];
  const double backward_s = forward_s * problem.backward_factor;
  const double start = forward_s + problem.start_gap_s;
  const double back = backward_s + problem.task_gap_s;
  const int32_t slots = problem.in_flight;
  std::vector<double> starts;
  std::vector<double> backwards;
  for (int32_t j = 0; j < microbatches; ++j) {
    double starts_at = j == 0 ? 0 : starts.back() + start;
    if (j >= slots) {
      const double over = j - slots;
      starts_at = std::max({starts_at, backwards[static_cast<size_t>(j - slots)] + back,
                            backwards[0] + (over + 1) * back + over * start});
    }
    double back_at = starts_at + tour_s - backward_s;
    if (j > 0) back_at = std::max(back_at, backwards.back() + back);
    starts.push_back(starts_at);
    backwards.push_back(back_at);
  }
  const double late_starts = std::max(0, microbatches - slots);
  const double busy = backwards[0] + microbatches * back - problem.task_gap_s + late_starts * start;
  return std::max(backwards.back() + backward_s, busy);
}

double AnyOriginsBound(const SkipPipeProblem& problem, const std::vector<double>& tours_s) {
  const int32_t all = problem.microbatches();
  const auto origins = static_cast<size_t>(problem.stage_sizes.front());
  std::vector<double> times;  // [n, all] of node i with j + 1 microbatches
  for (int32_t i = 0; i < problem.nodes(); ++i) {
    const double tour_s = tours_s[static_cast<size_t>(i)];
    for (int32_t k = 1; k <= all; ++k) {
      times.push_back(std::isfinite(tour_s) ? OriginSeconds(problem, i, tour_s, k) : tour_s);
    }
  }
  std::vector<double> candidates = times;
  std::sort(candidates.begin(), candidates.end());
  const auto enough = [&](double limit_s) {
    std::vector<int64_t> served;
    for (auto row = times.begin(); row != times.end(); row += all) {
      served.push_back(std::upper_bound(row, row + all, limit_s) - row);
    }
    std::sort(served.begin(), served.end(), std::greater<>());
    int64_t sum = 0;
    for (size_t i = 0; i < std::min(origins, served.size()); ++i) sum += served[i];
    return sum >= all;
  };
  const auto least = std::partition_point(candidates.begin(), candidates.end(),
                                          [&](double limit_s) { return !enough(limit_s); });
  return least == candidates.end() ? 0 : *least;
}

}  // namespace skerry
