#include "routing/joint_columns.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace skerry {

std::vector<std::vector<int32_t>> CutIntoColumns(
    const SkipPipeProblem& problem, const std::vector<std::vector<int32_t>>& partitions) {
  const int32_t visits = problem.path_length - 1;
  const int32_t later = problem.nodes() - problem.stage_sizes.front();
  const int32_t columns = later / visits;
  const auto [least, most] =
      std::minmax_element(problem.stage_sizes.begin() + 1, problem.stage_sizes.end());
  if (columns < 1 || *least != *most || columns * visits != later) return {};
  if (problem.microbatches() % columns != 0) return {};
  std::vector<int32_t> left = problem.stage_sizes;
  std::vector<std::vector<int32_t>> cut;
  for (int32_t column = 0; column < columns; ++column) {
    // Those with most nodes left, or a stage would have more of them than there are columns.
    std::vector<int32_t> stages(left.size() - 1);
    std::iota(stages.begin(), stages.end(), 1);
    std::stable_sort(stages.begin(), stages.end(), [&](int32_t a, int32_t b) {
      return left[static_cast<size_t>(a)] > left[static_cast<size_t>(b)];
    });
    stages.resize(static_cast<size_t>(visits));
    std::sort(stages.begin(), stages.end());
    cut.emplace_back();
    std::vector<int32_t> path = {0};
    for (const int32_t stage : stages) {
      path.push_back(stage);
      const auto s = static_cast<size_t>(stage);
      cut.back().push_back(partitions[s][static_cast<size_t>(--left[s])]);
    }
    if (!IsAllowedPath(problem, path)) return {};
  }
  return cut;
}

}  // namespace skerry
