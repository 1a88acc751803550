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
constexpr size_t kSuspects = 3;  // of each kind that are tried one at a time

double ToClass(double value) {
  if (value <= 0) return value;
  const double unit = std::log(kLinkClassRatio);
  return std::exp(unit * std::round(std::log(value) / unit));
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
        stages_asked_(input.config.pipeline.stages) {
    fewest_ = std::max<size_t>(1, static_cast<size_t>(std::max(1, input.config.nodes_min)));
    fewest_ = std::max(fewest_, static_cast<size_t>(stages_asked_));
    all_ = input.nodes;
  }

  TakingPart Choose() {
    best_ = {all_, stages_asked_};
    best_s_ = Seconds(best_);
    TryFewerStages();
    const std::vector<std::vector<NodeId>> orders = WorstFirst(trial_);
    for (const std::vector<NodeId>& order : orders) {
      for (size_t drop = 1; drop <= all_.size() - fewest_; drop += std::max<size_t>(1, drop / 2)) {
        Try(Without({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(drop)}));
      }
    }
    while (TryOneLess(orders)) continue;
    return best_;
  }

 private:
  double Seconds(const TakingPart& candidate) {
    trial_.nodes = candidate.nodes;
    trial_.config.pipeline.stages = candidate.stages;
    const double seconds = quick_plan_(trial_);
    trial_.nodes = all_;
    return seconds;
  }

  // As many nodes as possible, of what is about as fast.
  bool Try(const TakingPart& candidate) {
    if (candidate.nodes.size() < fewest_) return false;
    const double seconds = Seconds(candidate);
    const bool fewer = candidate.nodes.size() < best_.nodes.size();
    const bool better = fewer ? seconds < best_s_ * (1 - kWorthLeavingOut) : seconds < best_s_;
    if (!better) return false;
    best_ = candidate;
    best_s_ = seconds;
    return true;
  }

  TakingPart Without(const std::set<NodeId>& out) const {
    TakingPart rest = best_;
    rest.nodes.clear();
    std::set_difference(all_.begin(), all_.end(), out.begin(), out.end(),
                        std::back_inserter(rest.nodes));
    rest.stages = stages_asked_;
    return rest;
  }

  void TryFewerStages() {
    if (stages_asked_ > 0) return;
    const int32_t layers = trial_.config.model.layers;
    const int32_t least = AutoStages(static_cast<int32_t>(fewest_), layers);
    for (int32_t stages = AutoStages(static_cast<int32_t>(all_.size()), layers) - 1;
         stages >= least; --stages) {
      Try({all_, stages});
    }
  }

  // One of the worst of those that are left; true: the plan is better for it.
  bool TryOneLess(const std::vector<std::vector<NodeId>>& orders) {
    const std::vector<NodeId> now = best_.nodes;
    std::set<NodeId> suspects;
    for (const std::vector<NodeId>& order : orders) {
      size_t left = kSuspects;
      for (const NodeId& node : order) {
        if (left == 0) break;
        if (!std::binary_search(now.begin(), now.end(), node)) continue;
        suspects.insert(node);
        --left;
      }
    }
    bool any = false;
    for (const NodeId& node : suspects) {
      TakingPart rest{now, stages_asked_};
      std::erase(rest.nodes, node);
      any |= Try(rest);
    }
    return any;
  }

  PlannerInput trial_;  // rounded
  const QuickPlan& quick_plan_;
  int32_t stages_asked_;
  size_t fewest_ = 1;
  std::vector<NodeId> all_;
  TakingPart best_;
  double best_s_ = 0;
};

}  // namespace

PlannerInput Rounded(const PlannerInput& input) {
  PlannerInput rounded = input;
  const std::vector<double> speeds = SpeedsOf(input.nodes, input.devices);
  const std::vector<int32_t> classes = SpeedClasses(speeds);
  std::vector<double> sorted = speeds;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  for (size_t i = 0; i < input.nodes.size(); ++i) {
    DeviceProfile& device = rounded.devices.at(input.nodes[i]);
    device.name.clear();  // speeds are settled: no more medians over equal names
    device.gflops = ToClass(median) * std::pow(kSpeedClassRatio, classes[i]);
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
