#include "routing/fluid_model.h"

#include <algorithm>
#include <cmath>

namespace skerry {
namespace {

// Whole nanoseconds: sums that are added to and taken from stay exact.
constexpr double kPerSecond = 1e9;
constexpr int kSquarings = 3;  // the norm's power is 2 to this
// Stage 0 starts its slots together; elsewhere they are taken as microbatches come.
constexpr double kOriginStagger = 1.5;
constexpr double kStagger = 0.5;

int64_t Whole(double seconds) {
  return std::llround(seconds * kPerSecond);
}

double Power(double value) {
  for (int i = 0; i < kSquarings; ++i) value *= value;
  return value;
}

}  // namespace

FluidModel::FluidModel(const SkipPipeProblem& problem)
    : problem_(problem), nodes_(problem.forward_s.size()) {
  const int32_t n = problem.nodes();
  for (int32_t i = 0; i < n; ++i) {
    const double forward_s = problem.forward_s[static_cast<size_t>(i)];
    const double work_s = forward_s * (1 + problem.backward_factor);
    work_.push_back(Whole(work_s));
    loss_.push_back(Whole(forward_s * problem.loss_factor));
    busy_s_.push_back(work_s + 2 * problem.task_gap_s);
    for (int32_t j = 0; j < n; ++j) {
      both_.push_back(
          i == j ? 0 : Whole(problem.TransferSeconds(i, j) + problem.TransferSeconds(j, i)));
    }
  }
}

void FluidModel::Count(const int32_t* path, int32_t sign) {
  const auto at = [&](size_t hop) { return static_cast<size_t>(path[hop]); };
  const size_t n = nodes_.size();
  int64_t tour = both_[at(length_ - 1) * n + at(0)] + loss_[at(0)];
  for (size_t hop = length_; hop-- > 0;) {
    tour += work_[at(hop)];
    held_[hop] = tour;
    if (hop > 0) tour += both_[at(hop - 1) * n + at(hop)];
  }
  for (size_t hop = 0; hop < length_; ++hop) {
    Node& node = nodes_[at(hop)];
    node.held += sign * held_[hop];
    node.tour += sign * tour;
    node.visits += sign;
    if (hop == 0) node.origins += sign;
    if (!node.changed) {
      node.changed = true;
      changed_.push_back(at(hop));
    }
  }
}

double FluidModel::NodeSeconds(size_t index) const {
  const Node& node = nodes_[index];
  if (node.visits == 0) return 0;
  const double visits = node.visits;
  const double held_s = static_cast<double>(node.held) / (visits * kPerSecond);
  const double tour_s = static_cast<double>(node.tour) / (visits * kPerSecond);
  double waves = visits / problem_.in_flight;
  double busy_s = busy_s_[index];
  double stagger = kStagger;
  if (node.origins > 0) {
    waves = std::ceil(waves);
    busy_s += static_cast<double>(loss_[index]) / kPerSecond + problem_.task_gap_s;
    stagger = kOriginStagger;
  }
  const double stagger_s = stagger * busy_s * (std::min<double>(visits, problem_.in_flight) - 1);
  return std::max(tour_s + std::max(0.0, waves - 1) * held_s + stagger_s,
                  tour_s - held_s + visits * busy_s);
}

double FluidModel::Cost(const FlatSchedule& schedule) {
  const auto length = static_cast<size_t>(schedule.length);
  if (length_ != length || loaded_.size() != schedule.path.size()) {
    length_ = length;
    held_.resize(length);
    loaded_ = schedule.path;
    for (Node& node : nodes_) node = {};
    for (size_t first = 0; first < loaded_.size(); first += length_) Count(&loaded_[first], 1);
  }
  for (size_t first = 0; first < loaded_.size(); first += length_) {
    const int32_t* path = &schedule.path[first];
    if (std::equal(path, path + length_, &loaded_[first])) continue;
    Count(&loaded_[first], -1);
    Count(path, 1);
    std::copy(path, path + length_, &loaded_[first]);
  }
  for (const size_t index : changed_) {
    nodes_[index].power = Power(NodeSeconds(index));
    nodes_[index].changed = false;
  }
  changed_.clear();
  double sum = 0;
  for (const Node& node : nodes_) sum += node.power;
  double cost = sum / static_cast<double>(nodes_.size());
  for (int i = 0; i < kSquarings; ++i) cost = std::sqrt(cost);
  return cost;
}

}  // namespace skerry
