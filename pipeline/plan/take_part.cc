#include "pipeline/plan/take_part.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "pipeline/plan/partition.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr size_t kSmallFleet = 12;
constexpr size_t kBeam = 4;                // of whom all neighbours are tried, in those
constexpr std::ptrdiff_t kCentresMax = 4;  // in larger ones
constexpr double kNever = std::numeric_limits<double>::infinity();

// Exact in powers of two, whatever the class: kLinkClassRatio³ = 2.
double ToClass(double value) {
  if (value <= 0) return value;
  const auto third = static_cast<int32_t>(std::lround(3 * std::log2(value)));
  const int32_t whole = third >= 0 ? third / 3 : (third - 2) / 3;
  return std::ldexp(std::pow(kLinkClassRatio, third - 3 * whole), whole);
}

// Seconds that a boundary takes between a node and most others, there and back.
double WayOf(const PlannerInput& input, const NodeId& node) {
  std::vector<double> ways;
  const int64_t bytes = BoundaryBytes(input.config);
  const int32_t self = input.links.IndexOf(node);
  for (const NodeId& other : input.nodes) {
    if (other == node) continue;
    const int32_t index = input.links.IndexOf(other);
    ways.push_back(TransferSeconds(input.links.At(self, index), bytes) +
                   TransferSeconds(input.links.At(index, self), bytes));
  }
  const auto middle = ways.begin() + static_cast<std::ptrdiff_t>(ways.size() / 2);
  std::nth_element(ways.begin(), middle, ways.end());
  return *middle;
}

// The nodes worst first, by way, by speed, by memory: only what tells nodes apart.
std::vector<std::vector<NodeId>> WorstFirst(const PlannerInput& input) {
  std::vector<std::vector<std::pair<double, NodeId>>> keyed(3);
  for (const NodeId& node : input.nodes) {
    const DeviceProfile& device = input.devices.at(node);
    const double memory =
        device.memory_bytes == 0 ? kNever : static_cast<double>(device.memory_bytes);
    keyed[0].emplace_back(-WayOf(input, node), node);
    keyed[1].emplace_back(device.gflops, node);
    keyed[2].emplace_back(memory, node);
  }
  std::vector<std::vector<NodeId>> orders;
  for (auto& order : keyed) {
    std::sort(order.begin(), order.end());
    if (order.front().first == order.back().first) continue;
    orders.emplace_back();
    for (const auto& [key, node] : order) orders.back().push_back(node);
  }
  return orders;
}

// Of each of the nodes whose way to the others is shortest: the others, the nearest and fastest
// first. In small fleets of each node.
std::vector<std::vector<NodeId>> Neighbourhoods(const PlannerInput& input) {
  std::vector<std::pair<double, NodeId>> centres;
  for (const NodeId& node : input.nodes) centres.emplace_back(WayOf(input, node), node);
  std::sort(centres.begin(), centres.end());
  if (centres.size() > kSmallFleet) centres.erase(centres.begin() + kCentresMax, centres.end());
  const int64_t bytes = BoundaryBytes(input.config);
  const double visit_flops = LayerForwardFlops(input.config) * (1 + kBackwardPerForward);
  std::vector<std::vector<NodeId>> around;
  for (const auto& [way, centre] : centres) {
    const int32_t home = input.links.IndexOf(centre);
    std::vector<std::pair<double, NodeId>> others;
    for (const NodeId& node : input.nodes) {
      const int32_t index = input.links.IndexOf(node);
      double far_s = ComputeSeconds(visit_flops, input.devices.at(node).gflops);
      if (node != centre) {
        far_s += TransferSeconds(input.links.At(home, index), bytes) +
                 TransferSeconds(input.links.At(index, home), bytes);
      } else {
        far_s = 0;
      }
      others.emplace_back(far_s, node);
    }
    std::sort(others.begin(), others.end());
    around.emplace_back();
    for (const auto& [far_s, node] : others) around.back().push_back(node);
  }
  return around;
}

class Chooser {
 public:
  Chooser(const PlannerInput& input, const QuickPlan& quick_plan)
      : trial_(Rounded(input)),
        quick_plan_(quick_plan),
        stages_asked_(input.config.pipeline.stages),
        fewest_(static_cast<size_t>(std::max({1, input.config.nodes_min, stages_asked_}))),
        all_(input.nodes) {}

  void Choose() {
    Try({all_, stages_asked_});
    TryFewerStages();
    TryNeighbourhoods();
    std::set<int32_t> shapes = {stages_asked_, best_.stages};
    const std::vector<std::vector<NodeId>> orders = WorstFirst(trial_);
    for (const int32_t stages : shapes) {
      for (const std::vector<NodeId>& order : orders) TryWithoutWorst(order, stages);
    }
    if (all_.size() > kSmallFleet) {
      bool better = true;
      while (better) {
        better = false;
        shapes.insert(best_.stages);
        for (const int32_t stages : shapes) better |= TryNeighbours(orders, stages);
      }
    } else {
      while (const auto next = NotExpanded()) Expand(*next);
    }
  }

  // What Choose has tried, the best first.
  std::vector<TakingPart> Best(size_t most) const {
    std::vector<TakingPart> best;
    for (const auto& [cost, candidate] : ranked_) {
      if (best.size() == most) break;
      best.push_back(candidate);
    }
    return best;
  }

 private:
  size_t PlansMax() const { return all_.size() <= kSmallFleet ? kSmallPlansMax : kQuickPlansMax; }

  // True: it is the best so far.
  bool Try(const TakingPart& candidate) {
    if (static_cast<int32_t>(candidate.nodes.size()) < candidate.stages) return false;
    if (candidate.nodes.size() < fewest_ || tried_.size() >= PlansMax()) return false;
    if (!tried_.insert({candidate.nodes, candidate.stages}).second) return false;
    trial_.nodes = candidate.nodes;
    trial_.config.pipeline.stages = candidate.stages;
    const double left_out = static_cast<double>(all_.size() - candidate.nodes.size());
    const double cost = quick_plan_(trial_) * (1 + kWorthLeavingOut * left_out);
    trial_.nodes = all_;
    ranked_.emplace_back(cost, candidate);
    std::inplace_merge(ranked_.begin(), ranked_.end() - 1, ranked_.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    if (tried_.size() > 1 && cost >= best_cost_) return false;
    best_ = candidate;
    best_cost_ = cost;
    return true;
  }

  void TryWithoutWorst(const std::vector<NodeId>& order, int32_t stages) {
    for (size_t drop = 1; drop + fewest_ <= all_.size(); drop += std::max<size_t>(1, drop / 2)) {
      const auto end = order.begin() + static_cast<std::ptrdiff_t>(drop);
      Try(Without(std::set<NodeId>(order.begin(), end), stages));
    }
  }

  TakingPart Without(const std::set<NodeId>& out, int32_t stages) const {
    TakingPart rest{{}, stages};
    std::set_difference(all_.begin(), all_.end(), out.begin(), out.end(),
                        std::back_inserter(rest.nodes));
    return rest;
  }

  // From what the fewest nodes would get to one more than all would, the most first.
  std::vector<int32_t> StageNumbers() const {
    if (stages_asked_ > 0) return {stages_asked_};
    const int32_t stages_max = trial_.config.model.stages_max();
    const int32_t least = AutoStages(static_cast<int32_t>(fewest_), stages_max);
    const int32_t most =
        std::min(stages_max, AutoStages(static_cast<int32_t>(all_.size()), stages_max) + 1);
    std::vector<int32_t> numbers;
    for (int32_t stages = most; stages >= least; --stages) numbers.push_back(stages);
    return numbers;
  }

  void TryFewerStages() {
    for (const int32_t stages : StageNumbers()) Try({all_, stages});
  }

  // Those nearest to somebody, in growing numbers.
  void TryNeighbourhoods() {
    const std::vector<int32_t> numbers = StageNumbers();
    std::set<int32_t> shapes = {best_.stages, numbers.back()};
    const std::vector<std::vector<NodeId>> around = Neighbourhoods(trial_);
    for (size_t size = fewest_; size < all_.size(); size += 1 + size / kSmallFleet) {
      for (const std::vector<NodeId>& nearest : around) {
        for (const int32_t stages : shapes) {
          std::vector<NodeId> nodes(nearest.begin(),
                                    nearest.begin() + static_cast<std::ptrdiff_t>(size));
          std::sort(nodes.begin(), nodes.end());
          Try({nodes, stages});
        }
      }
    }
  }

  // Of each number of stages the first of the best few whose neighbours have not been tried.
  std::optional<TakingPart> NotExpanded() {
    std::map<int32_t, size_t> seen;
    for (const auto& [cost, candidate] : ranked_) {
      if (seen[candidate.stages]++ >= kBeam) continue;
      if (expanded_.insert({candidate.nodes, candidate.stages}).second) return candidate;
    }
    return std::nullopt;
  }

  // One node less, one or two more, one exchanged, or a stage more or less. Two: one alone may only
  // make the replicas of stages uneven.
  void Expand(const TakingPart& candidate) {
    for (const int32_t stages : StageNumbers()) Try({candidate.nodes, stages});
    std::set<NodeId> out(all_.begin(), all_.end());
    for (const NodeId& node : candidate.nodes) out.erase(node);
    for (const NodeId& more : out) {
      std::set<NodeId> rest = out;
      rest.erase(more);
      Try(Without(rest, candidate.stages));
      for (const NodeId& another : out) {
        if (!(more < another)) continue;
        std::set<NodeId> others = rest;
        others.erase(another);
        Try(Without(others, candidate.stages));
      }
    }
    for (const NodeId& less : candidate.nodes) {
      std::set<NodeId> rest = out;
      rest.insert(less);
      Try(Without(rest, candidate.stages));
      for (const NodeId& more : out) {
        std::set<NodeId> others = rest;
        others.erase(more);
        Try(Without(others, candidate.stages));
      }
    }
  }

  // One of the worst less, one that was left out more, or both. True: something was better.
  bool TryNeighbours(const std::vector<std::vector<NodeId>>& orders, int32_t stages) {
    const std::set<NodeId> in(best_.nodes.begin(), best_.nodes.end());
    std::set<NodeId> out(all_.begin(), all_.end());
    for (const NodeId& node : in) out.erase(node);
    std::vector<NodeId> suspects;
    for (size_t rank = 0; rank < all_.size(); ++rank) {  // the worst of every kind first
      for (const std::vector<NodeId>& order : orders) {
        const bool is_known =
            std::find(suspects.begin(), suspects.end(), order[rank]) != suspects.end();
        if (in.contains(order[rank]) && !is_known) suspects.push_back(order[rank]);
      }
    }
    bool any = false;
    const auto try_without = [&](const std::set<NodeId>& left) {
      any |= Try(Without(left, stages));
    };
    for (const NodeId& node : out) {
      std::set<NodeId> rest = out;
      rest.erase(node);
      try_without(rest);
    }
    for (const NodeId& node : suspects) {
      std::set<NodeId> rest = out;
      rest.insert(node);
      try_without(rest);
    }
    for (const NodeId& suspect : suspects) {
      for (const NodeId& node : out) {
        if (any) return true;
        std::set<NodeId> rest = out;
        rest.insert(suspect);
        rest.erase(node);
        try_without(rest);
      }
    }
    return any;
  }

  PlannerInput trial_;  // rounded
  const QuickPlan& quick_plan_;
  int32_t stages_asked_;
  size_t fewest_;
  std::vector<NodeId> all_;
  std::set<std::pair<std::vector<NodeId>, int32_t>> tried_;
  std::vector<std::pair<double, TakingPart>> ranked_;  // by cost
  std::set<std::pair<std::vector<NodeId>, int32_t>> expanded_;
  TakingPart best_;
  double best_cost_ = kNever;
};

}  // namespace

PlannerInput Rounded(const PlannerInput& input) {
  PlannerInput rounded = input;
  const std::vector<double> speeds = SpeedsOf(input.nodes, input.devices);
  for (size_t i = 0; i < input.nodes.size(); ++i) {
    DeviceProfile& device = rounded.devices.at(input.nodes[i]);
    device.name.clear();  // settled: no other median where nodes are left out
    device.gflops = speeds[i];
  }
  for (int32_t i = 0; i < rounded.links.size(); ++i) {
    for (int32_t j = 0; j < rounded.links.size(); ++j) {
      if (i == j) continue;
      LinkEstimate& link = rounded.links.At(i, j);
      link.rtt_s = ToClass(link.rtt_s);
      link.bytes_per_s = ToClass(link.bytes_per_s);
    }
  }
  return rounded;
}

std::vector<TakingPart> ChooseTakingPart(const PlannerInput& input, const QuickPlan& quick_plan,
                                         size_t most) {
  const auto least = static_cast<size_t>(std::max(1, input.config.nodes_min));
  if (input.nodes.size() <= least || input.nodes.size() > kChosenFleetMax) {
    return {{input.nodes, input.config.pipeline.stages}};
  }
  Chooser chooser(input, quick_plan);
  chooser.Choose();
  return chooser.Best(most);
}

}  // namespace skerry
