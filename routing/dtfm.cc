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
constexpr double kColdShare = 0.003;
constexpr double kMeanShare = 0.02;  // of the mean exchange in what is searched for
constexpr int64_t kRounds = 4;       // it is heated up again so often
constexpr int64_t kAskEvery = 128;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Which node of the smaller group goes with which of the larger, and the slowest pair.
struct Matching {
  double bottleneck_s = 0;
  std::vector<int32_t> of_left;  // [left] index on the right
};

class Matcher {
 public:
  explicit Matcher(const DtfmProblem& problem) : n_(static_cast<size_t>(problem.nodes())) {
    levels_ = problem.activation_s;
    std::sort(levels_.begin(), levels_.end());
    levels_.erase(std::unique(levels_.begin(), levels_.end()), levels_.end());
    for (const double seconds : problem.activation_s) {
      const auto level = std::lower_bound(levels_.begin(), levels_.end(), seconds);
      ranks_.push_back(static_cast<int32_t>(level - levels_.begin()));
    }
  }

  // `left` is no larger than `right`. of_right() says who goes with whom.
  double Bottleneck(const std::vector<int32_t>& left, const std::vector<int32_t>& right) {
    int32_t level = LoadRanks(left, right);
    while (!IsPerfect(left.size(), right.size(), level)) level = NextLevel(level);
    return levels_[static_cast<size_t>(level)];
  }

  Matching Match(const std::vector<int32_t>& left, const std::vector<int32_t>& right) {
    Matching matching{Bottleneck(left, right), std::vector<int32_t>(left.size())};
    for (size_t j = 0; j < right.size(); ++j) {
      if (of_right_[j] < 0) continue;
      matching.of_left[static_cast<size_t>(of_right_[j])] = static_cast<int32_t>(j);
    }
    return matching;
  }

 private:
  // Of every pair; the least level at which nobody is left alone.
  int32_t LoadRanks(const std::vector<int32_t>& left, const std::vector<int32_t>& right) {
    int32_t level = 0;
    pairs_.resize(left.size() * right.size());
    best_of_right_.assign(right.size(), std::numeric_limits<int32_t>::max());
    int32_t* rank = pairs_.data();
    for (const int32_t a : left) {
      const int32_t* row = &ranks_[static_cast<size_t>(a) * n_];
      int32_t best = std::numeric_limits<int32_t>::max();
      for (size_t j = 0; j < right.size(); ++j, ++rank) {
        *rank = row[static_cast<size_t>(right[j])];
        best = std::min(best, *rank);
        best_of_right_[j] = std::min(best_of_right_[j], *rank);
      }
      level = std::max(level, best);
    }
    if (left.size() < right.size()) return level;
    return std::max(level, *std::max_element(best_of_right_.begin(), best_of_right_.end()));
  }

  int32_t NextLevel(int32_t level) const {
    int32_t next = std::numeric_limits<int32_t>::max();
    for (const int32_t rank : pairs_) {
      if (rank > level) next = std::min(next, rank);
    }
    return next;
  }

  bool IsPerfect(size_t left, size_t right, int32_t level) {
    const int32_t* rank = pairs_.data();
    for (size_t i = 0; i < left; ++i) {
      rows_[i] = 0;
      for (size_t j = 0; j < right; ++j, ++rank) {
        rows_[i] |= static_cast<uint64_t>(*rank <= level) << j;
      }
    }
    std::fill_n(of_right_.begin(), right, -1);
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

  size_t n_;
  std::vector<double> levels_;  // the distinct seconds, ascending
  std::vector<int32_t> ranks_;  // [n, n] index into levels_
  std::vector<int32_t> pairs_;  // [left, right] ranks
  std::vector<int32_t> best_of_right_;
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

  // Of all groups, what the cost's maxima leave open: leads a search over its plateaus.
  double mean_exchange() const {
    double sum = 0;
    for (const double seconds : exchange_) sum += seconds;
    return sum / static_cast<double>(exchange_.size());
  }

  void Exchange(size_t g, size_t i, size_t h, size_t j) {
    exchange_before_ = exchange_;
    edges_before_ = edges_;
    pipeline_before_ = pipeline_;
    changed_ = pipeline_ == 0;
    std::swap(groups_[g][i], groups_[h][j]);
    Update(g);
    Update(h);
    if (changed_) pipeline_ = ShortestTour(nullptr);
  }

  // The last Exchange, with the same arguments.
  void TakeBack(size_t g, size_t i, size_t h, size_t j) {
    std::swap(groups_[g][i], groups_[h][j]);
    exchange_.swap(exchange_before_);
    edges_.swap(edges_before_);
    pipeline_ = pipeline_before_;
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
        const double pair =
            problem_.exchange_s[static_cast<size_t>(a) * n + static_cast<size_t>(b)];
        sum = problem_.largest_pair ? std::max(sum, pair) : sum + pair;
      }
      exchange_[g] = std::max(exchange_[g], sum);
    }
    for (size_t h = 0; h < groups_.size(); ++h) {
      if (h == g) continue;
      const bool smaller = groups_[g].size() <= groups_[h].size();
      const double edge = matcher_.Bottleneck(groups_[smaller ? g : h], groups_[smaller ? h : g]);
      changed_ |= edges_[g * groups_.size() + h] != edge;
      edges_[g * groups_.size() + h] = edge;
      edges_[h * groups_.size() + g] = edge;
    }
  }

  // Held and Karp: reach_[set, last] is the shortest way through the set that ends in `last`.
  double ShortestTour(std::vector<size_t>* order) {
    const size_t count = groups_.size();
    const size_t sets = size_t{1} << count;
    reach_.assign(sets * count, kNever);
    const size_t starts = problem_.closed_tour ? 1 : count;
    for (size_t g = 0; g < starts; ++g) reach_[(size_t{1} << g) * count + g] = 0;
    const auto lowest = [](size_t bits) { return static_cast<size_t>(std::countr_zero(bits)); };
    for (size_t set = 1; set < sets; ++set) {
      for (size_t rest = set; rest != 0; rest &= rest - 1) {
        const size_t last = lowest(rest);
        const double so_far = reach_[set * count + last];
        if (so_far == kNever) continue;
        for (size_t open = (sets - 1) & ~set; open != 0; open &= open - 1) {
          const size_t next = lowest(open);
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
      double through = kNever;
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
  bool changed_ = false;  // an edge, since the last tour
  std::vector<double> exchange_before_;
  std::vector<double> edges_before_;
  double pipeline_before_ = 0;
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
  const auto score = [&] { return current.cost() + kMeanShare * current.mean_exchange(); };
  double cost = score();
  double best = current.cost();
  const double unit = best;
  std::vector<std::vector<int32_t>> best_groups = current.groups();
  double temperature = kHotShare * unit;
  for (int64_t i = 0; i < options.evaluations; ++i) {
    if (i % kAskEvery == 0) {
      if (options.should_stop && options.should_stop()) break;
      const double progress = std::fmod(
          static_cast<double>(i * kRounds) / static_cast<double>(options.evaluations), 1.0);
      temperature = kHotShare * unit * std::pow(kColdShare / kHotShare, progress);
    }
    const size_t g = rng.Below(current.groups().size());
    const size_t h = rng.Below(current.groups().size());
    const size_t a = rng.Below(current.groups()[g].size());
    const size_t b = rng.Below(current.groups()[h].size());
    if (g == h) continue;
    current.Exchange(g, a, h, b);
    const double candidate = score();
    if (candidate > cost - temperature * std::log(1.0 - rng.Uniform())) {
      current.TakeBack(g, a, h, b);
      continue;
    }
    cost = candidate;
    if (current.cost() < best) {
      best = current.cost();
      best_groups = current.groups();
    }
  }
  return EvaluateDtfm(problem, best_groups);
}

}  // namespace skerry
