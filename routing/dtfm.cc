#include "routing/dtfm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "common/rng.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr double kHotShare = 0.02;  // temperatures are shares of the first cost
constexpr double kColdShare = 0.0002;
constexpr int64_t kAskEvery = 128;

// Which node of the smaller group goes with which of the larger, and the slowest pair.
struct Matching {
  double bottleneck_s = 0;
  std::vector<int32_t> of_left;  // [left] index on the right
};

class Matcher {
 public:
  explicit Matcher(const DtfmProblem& problem)
      : problem_(problem), n_(static_cast<size_t>(problem.nodes())) {}

  // `left` is no larger than `right`.
  Matching Match(const std::vector<int32_t>& left, const std::vector<int32_t>& right) {
    values_.clear();
    for (const int32_t a : left) {
      for (const int32_t b : right) values_.push_back(Cost(a, b));
    }
    sorted_ = values_;
    std::sort(sorted_.begin(), sorted_.end());
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    size_t low = 0;
    size_t high = sorted_.size() - 1;
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (IsPerfect(left.size(), right.size(), sorted_[middle])) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    IsPerfect(left.size(), right.size(), sorted_[low]);
    Matching matching{sorted_[low], std::vector<int32_t>(left.size())};
    for (size_t j = 0; j < right.size(); ++j) {
      if (of_right_[j] >= 0) {
        matching.of_left[static_cast<size_t>(of_right_[j])] = static_cast<int32_t>(j);
      }
    }
    return matching;
  }

 private:
  double Cost(int32_t a, int32_t b) const {
    return problem_.activation_s[static_cast<size_t>(a) * n_ + static_cast<size_t>(b)];
  }

  bool IsPerfect(size_t left, size_t right, double limit) {
    for (size_t i = 0; i < left; ++i) {
      rows_[i] = 0;
      for (size_t j = 0; j < right; ++j) {
        if (values_[i * right + j] <= limit) rows_[i] |= uint64_t{1} << j;
      }
    }
    of_right_.fill(-1);
    for (size_t i = 0; i < left; ++i) {
      unseen_ = ~uint64_t{0};
      if (!Augment(i)) return false;
    }
    return true;
  }

  bool Augment(size_t i) {
    while (const uint64_t open = rows_[i] & unseen_) {
      const auto j = static_cast<size_t>(std::countr_zero(open));
      unseen_ &= ~(uint64_t{1} << j);
      if (of_right_[j] < 0 || Augment(static_cast<size_t>(of_right_[j]))) {
        of_right_[j] = static_cast<int32_t>(i);
        return true;
      }
    }
    return false;
  }

  const DtfmProblem& problem_;
  size_t n_;
  std::vector<double> values_;
  std::vector<double> sorted_;
  std::array<uint64_t, kDtfmGroupNodesMax> rows_{};
  std::array<int32_t, kDtfmGroupNodesMax> of_right_{};
  uint64_t unseen_ = 0;
};

// A partition with its costs, kept up to date under exchanges.
class Grouping {
 public:
  Grouping(const DtfmProblem& problem, std::vector<std::vector<int32_t>> groups)
      : problem_(problem), matcher_(problem), groups_(std::move(groups)) {
    const size_t count = groups_.size();
    exchange_.resize(count);
    edges_.resize(count * count);
    for (size_t g = 0; g < count; ++g) Update(g);
  }

  double cost() const { return data_parallel() + 2 * pipeline_; }
  double data_parallel() const { return *std::max_element(exchange_.begin(), exchange_.end()); }
  double pipeline() const { return pipeline_; }
  const std::vector<std::vector<int32_t>>& groups() const { return groups_; }

  void Exchange(size_t g, size_t i, size_t h, size_t j) {
    std::swap(groups_[g][i], groups_[h][j]);
    Update(g);
    Update(h);
    pipeline_ = ShortestTour(nullptr);
  }

  // Pipeline order, matched index by index.
  std::vector<std::vector<int32_t>> InOrder() {
    std::vector<size_t> order;
    pipeline_ = ShortestTour(&order);
    std::vector<std::vector<int32_t>> aligned;
    for (const size_t g : order) {
      aligned.push_back(aligned.empty() ? groups_[g] : Aligned(aligned.back(), groups_[g]));
    }
    return aligned;
  }

 private:
  void Update(size_t g) {
    const auto n = static_cast<size_t>(problem_.nodes());
    exchange_[g] = 0;
    for (const int32_t a : groups_[g]) {
      double sum = 0;
      for (const int32_t b : groups_[g]) {
        if (a == b) continue;
        const double pair = problem_.exchange_s[static_cast<size_t>(a) * n + static_cast<size_t>(b)];
        sum = problem_.largest_pair ? std::max(sum, pair) : sum + pair;
      }
      exchange_[g] = std::max(exchange_[g], sum);
    }
    for (size_t h = 0; h < groups_.size(); ++h) {
      if (h == g) continue;
      const bool smaller = groups_[g].size() <= groups_[h].size();
      const double edge =
          matcher_.Match(groups_[smaller ? g : h], groups_[smaller ? h : g]).bottleneck_s;
      edges_[g * groups_.size() + h] = edge;
      edges_[h * groups_.size() + g] = edge;
    }
  }

  // Held and Karp: reach_[set, last] is the shortest way through the set that ends in `last`.
  double ShortestTour(std::vector<size_t>* order) {
    const size_t count = groups_.size();
    const size_t sets = size_t{1} << count;
    reach_.assign(sets * count, std::numeric_limits<double>::infinity());
    const size_t starts = problem_.closed_tour ? 1 : count;
    for (size_t g = 0; g < starts; ++g) reach_[(size_t{1} << g) * count + g] = 0;
    for (size_t set = 1; set < sets; ++set) {
      for (size_t last = 0; last < count; ++last) {
        const double so_far = reach_[set * count + last];
        if (std::isinf(so_far)) continue;
        for (size_t next = 0; next < count; ++next) {
          if ((set >> next & 1) != 0) continue;
          double& reach = reach_[(set | size_t{1} << next) * count + next];
          reach = std::min(reach, so_far + edges_[last * count + next]);
        }
      }
    }
    size_t set = sets - 1;
    if (problem_.closed_tour) {
      for (size_t g = 0; g < count; ++g) reach_[set * count + g] += edges_[g * count];
    }
    const auto row = reach_.begin() + static_cast<std::ptrdiff_t>(set * count);
    const auto least = std::min_element(row, row + static_cast<std::ptrdiff_t>(count));
    const double tour = *least;
    if (order == nullptr) return tour;
    auto last = static_cast<size_t>(least - row);
    for (order->push_back(last); order->size() < count; order->push_back(last)) {
      const size_t before = set & ~(size_t{1} << last);
      size_t best = 0;
      double through = std::numeric_limits<double>::infinity();
      for (size_t g = 0; g < count; ++g) {
        const double way = reach_[before * count + g] + edges_[g * count + last];
        if ((before >> g & 1) == 0 || way >= through) continue;
        best = g;
        through = way;
      }
      set = before;
      last = best;
    }
    std::reverse(order->begin(), order->end());
    return tour;
  }

  std::vector<int32_t> Aligned(const std::vector<int32_t>& before, std::vector<int32_t> group) {
    const bool smaller = before.size() <= group.size();
    const Matching matching = matcher_.Match(smaller ? before : group, smaller ? group : before);
    std::vector<int32_t> aligned(group.size(), -1);
    std::vector<int32_t> left;
    std::vector<bool> used(group.size());
    for (size_t i = 0; i < matching.of_left.size(); ++i) {
      const auto other = static_cast<size_t>(matching.of_left[i]);
      const size_t from = smaller ? other : i;
      const size_t to = smaller ? i : other;
      if (to >= group.size()) continue;
      aligned[to] = group[from];
      used[from] = true;
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (!used[i]) left.push_back(group[i]);
    }
    for (int32_t& node : aligned) {
      if (node >= 0) continue;
      node = left.back();
      left.pop_back();
    }
    return aligned;
  }

  const DtfmProblem& problem_;
  Matcher matcher_;
  std::vector<std::vector<int32_t>> groups_;
  std::vector<double> exchange_;  // [groups]
  std::vector<double> edges_;     // [groups, groups]
  std::vector<double> reach_;
  double pipeline_ = 0;
};

absl::Status Validate(const DtfmProblem& problem) {
  const auto n = static_cast<size_t>(problem.nodes());
  if (problem.group_sizes.size() < 2 || problem.group_sizes.size() > kDtfmGroupsMax) {
    return InvalidArgument("DT-FM: want 2 to %d groups, got %d", kDtfmGroupsMax,
                           problem.group_sizes.size());
  }
  for (const int32_t size : problem.group_sizes) {
    if (size < 1 || size > kDtfmGroupNodesMax) {
      return InvalidArgument("DT-FM: a group of %d nodes", size);
    }
  }
  if (problem.exchange_s.size() != n * n || problem.activation_s.size() != n * n) {
    return InvalidArgument("DT-FM: want %d times for %d nodes", n * n, n);
  }
  for (size_t i = 0; i < n * n; ++i) {
    if (i % (n + 1) == 0) continue;
    if (!std::isfinite(problem.exchange_s[i]) || !std::isfinite(problem.activation_s[i])) {
      return InvalidArgument("DT-FM: link %d to %d has no time", i / n, i % n);
    }
  }
  return absl::OkStatus();
}

DtfmPlan PlanOf(Grouping& grouping) {
  DtfmPlan plan;
  plan.groups = grouping.InOrder();
  plan.data_parallel_s = grouping.data_parallel();
  plan.pipeline_s = grouping.pipeline();
  return plan;
}

}  // namespace

int32_t DtfmProblem::nodes() const {
  return std::accumulate(group_sizes.begin(), group_sizes.end(), 0);
}

absl::StatusOr<DtfmPlan> EvaluateDtfm(const DtfmProblem& problem,
                                      const std::vector<std::vector<int32_t>>& groups) {
  SKERRY_RETURN_IF_ERROR(Validate(problem));
  std::vector<bool> seen(static_cast<size_t>(problem.nodes()));
  size_t nodes = 0;
  for (const auto& group : groups) {
    for (const int32_t node : group) {
      if (node < 0 || node >= problem.nodes() || seen[static_cast<size_t>(node)]) {
        return InvalidArgument("DT-FM: node %d is unknown or in two groups", node);
      }
      seen[static_cast<size_t>(node)] = true;
      ++nodes;
    }
  }
  if (nodes != seen.size() || groups.size() != problem.group_sizes.size()) {
    return InvalidArgument("DT-FM: the partition leaves out nodes or groups");
  }
  Grouping grouping(problem, groups);
  return PlanOf(grouping);
}

absl::StatusOr<DtfmPlan> SearchDtfm(const DtfmProblem& problem, const DtfmOptions& options) {
  SKERRY_RETURN_IF_ERROR(Validate(problem));
  Rng rng(options.seed, "dtfm");
  std::vector<int32_t> nodes(static_cast<size_t>(problem.nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[rng.Below(i)]);
  std::vector<std::vector<int32_t>> groups;
  auto next = nodes.begin();
  for (const int32_t size : problem.group_sizes) {
    groups.emplace_back(next, next + size);
    next += size;
  }
  Grouping current(problem, std::move(groups));
  current.Exchange(0, 0, 0, 0);
  double cost = current.cost();
  const double unit = cost;
  double best = cost;
  std::vector<std::vector<int32_t>> best_groups = current.groups();
  double temperature = kHotShare * unit;
  for (int64_t i = 0; i < options.evaluations; ++i) {
    if (i % kAskEvery == 0) {
      if (options.should_stop && options.should_stop()) break;
      const double progress = static_cast<double>(i) / static_cast<double>(options.evaluations);
      temperature = kHotShare * unit * std::pow(kColdShare / kHotShare, progress);
    }
    const size_t g = rng.Below(current.groups().size());
    const size_t h = rng.Below(current.groups().size());
    const size_t a = rng.Below(current.groups()[g].size());
    const size_t b = rng.Below(current.groups()[h].size());
    if (g == h) continue;
    current.Exchange(g, a, h, b);
    const double candidate = current.cost();
    if (candidate > cost - temperature * std::log(1.0 - rng.Uniform())) {
      current.Exchange(g, a, h, b);
      continue;
    }
    cost = candidate;
    if (cost < best) {
      best = cost;
      best_groups = current.groups();
    }
  }
  return EvaluateDtfm(problem, best_groups);
}

}  // namespace skerry
