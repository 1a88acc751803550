#include "pipeline/plan/take_part.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "pipeline/plan/partition.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

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

class Chooser {
 public:
  Chooser(const PlannerInput& input, const QuickPlan& quick_plan)
      : trial_(Rounded(input)),
        quick_plan_(quick_plan),
        stages_asked_(input.config.pipeline.stages),
        fewest_(static_cast<size_t>(std::max({1, input.config.nodes_min, stages_asked_}))),
        all_(input.nodes) {}

  TakingPart Choose() {
    Try({all_, stages_asked_});
    TryFewerStages();
    std::set<int32_t> shapes = {stages_asked_, best_.stages};
    const std::vector<std::vector<NodeId>> orders = WorstFirst(trial_);
    for (const int32_t stages : shapes) {
      for (const std::vector<NodeId>& order : orders) TryWithoutWorst(order, stages);
    }
    bool better = true;
    while (better) {
      better = false;
      shapes.insert(best_.stages);
      for (const int32_t stages : shapes) better |= TryNeighbours(orders, stages);
    }
    return best_;
  }

 private:
  // True: it is the best so far.
  bool Try(const TakingPart& candidate) {
    if (candidate.nodes.size() < fewest_ || tried_.size() >= kQuickPlansMax) return false;
    if (!tried_.insert({candidate.nodes, candidate.stages}).second) return false;
    trial_.nodes = candidate.nodes;
    trial_.config.pipeline.stages = candidate.stages;
    const double left_out = static_cast<double>(all_.size() - candidate.nodes.size());
    const double cost = quick_plan_(trial_) * (1 + kWorthLeavingOut * left_out);
    trial_.nodes = all_;
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

  void TryFewerStages() {
    if (stages_asked_ > 0) return;
    const int32_t layers = trial_.config.model.layers;
    const int32_t least = AutoStages(static_cast<int32_t>(fewest_), layers);
    const int32_t most =
        std::min(layers, AutoStages(static_cast<int32_t>(all_.size()), layers) + 1);
    for (int32_t stages = most; stages >= least; --stages) Try({all_, stages});
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

TakingPart ChooseTakingPart(const PlannerInput& input, const QuickPlan& quick_plan) {
  const auto least = static_cast<size_t>(std::max(1, input.config.nodes_min));
  if (input.nodes.size() <= least || input.nodes.size() > kChosenFleetMax) {
    return {input.nodes, input.config.pipeline.stages};
  }
  return Chooser(input, quick_plan).Choose();
}

}  // namespace skerry
