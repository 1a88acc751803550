#include "routing/skippipe_simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace skerry {
namespace {

constexpr double kFresh = 10000;
constexpr double kPollSeconds = 0.1;
constexpr int kLooksPerSecond = 15;
constexpr double kSecondsMax = 10000;
constexpr size_t kLanes = 100;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

SkipPipeSimulator::SkipPipeSimulator(const SkipPipeProblem& problem)
    : problem_(problem), nodes_(problem.forward_s.size()), out_(kLanes) {}

void SkipPipeSimulator::Reset() {
  microbatches_.clear();
  for (Node& node : nodes_) {
    node.items.clear();
    node.free_at = 0;
    node.due = kNever;
    node.memory = problem_.in_flight;
  }
  std::fill(out_.begin(), out_.end(), 0);
  done_ = 0;
  end_ = 0;
}

void SkipPipeSimulator::Add(const Microbatch& microbatch, double release_s) {
  Node& node = nodes_[static_cast<size_t>(*microbatch.path)];
  const auto index = static_cast<int32_t>(microbatches_.size());
  node.items.push_back({release_s, kFresh, index, 0, Task::kForward, false});
  node.due = std::min(node.due, release_s);
  microbatches_.push_back(microbatch);
}

void SkipPipeSimulator::Send(double at, int32_t from, const Item& item, int32_t to_hop, Task task) {
  const int32_t to = microbatches_[static_cast<size_t>(item.microbatch)].path[to_hop];
  const double arrival = at + problem_.TransferSeconds(from, to);
  Node& node = nodes_[static_cast<size_t>(to)];
  node.items.push_back({arrival, arrival, item.microbatch, to_hop, task, false});
  node.due = std::min(node.due, arrival);
}

// Sums in the order of the published code: (at + service) + transfer.
void SkipPipeSimulator::Forward(int32_t index, const Item& item) {
  const Microbatch& microbatch = microbatches_[static_cast<size_t>(item.microbatch)];
  const double done = item.at + problem_.forward_s[static_cast<size_t>(index)];
  const bool last = item.hop + 1 == microbatch.length;
  --nodes_[static_cast<size_t>(index)].memory;
  if (item.hop == 0 && microbatch.wave == 0) out_[static_cast<size_t>(microbatch.lane)] = 1;
  Send(done, index, item, last ? 0 : item.hop + 1, last ? Task::kLoss : Task::kForward);
}

void SkipPipeSimulator::Backward(int32_t index, const Item& item) {
  const Microbatch& microbatch = microbatches_[static_cast<size_t>(item.microbatch)];
  const double done =
      item.at + problem_.forward_s[static_cast<size_t>(index)] * problem_.backward_factor;
  ++nodes_[static_cast<size_t>(index)].memory;
  if (item.hop > 0) return Send(done, index, item, item.hop - 1, Task::kBackward);
  out_[static_cast<size_t>(microbatch.lane)] = 0;
  ++done_;
  end_ = std::max(end_, done);
}

void SkipPipeSimulator::Serve(int32_t index, size_t item_index) {
  Node& node = nodes_[static_cast<size_t>(index)];
  const Item item = node.items[item_index];
  const double forward = problem_.forward_s[static_cast<size_t>(index)];
  double service = forward;
  if (item.task == Task::kForward) {
    Forward(index, item);
  } else if (item.task == Task::kLoss) {
    service = forward * problem_.loss_factor;
    const int32_t length = microbatches_[static_cast<size_t>(item.microbatch)].length;
    Send(item.at + service, index, item, length - 1, Task::kBackward);
  } else {
    service = forward * problem_.backward_factor;
    Backward(index, item);
  }
  const double gap = item.received == kFresh ? problem_.start_gap_s : problem_.task_gap_s;
  node.free_at = item.at + service + gap;
  node.items[item_index].served = true;
  for (Item& other : node.items) {
    if (!other.served && item.at <= other.at && node.free_at > other.at) other.at = node.free_at;
  }
}

bool SkipPipeSimulator::Consider(int32_t index, size_t item_index, double second) {
  Node& node = nodes_[static_cast<size_t>(index)];
  Item& item = node.items[item_index];
  if (item.served || std::floor(item.at) != second) return false;
  if (item.at < node.free_at) {
    item.at = node.free_at;
    return true;
  }
  if (item.task == Task::kForward && node.memory <= 0) {
    item.at += kPollSeconds;
    return true;
  }
  if (item.task == Task::kForward && item.hop == 0) {
    const Microbatch& microbatch = microbatches_[static_cast<size_t>(item.microbatch)];
    if (out_[static_cast<size_t>(microbatch.lane)] != 0) return false;
  }
  Serve(index, item_index);
  return true;
}

bool SkipPipeSimulator::Look(int32_t index, double second) {
  std::vector<Item>& items = nodes_[static_cast<size_t>(index)].items;
  // Stable, and nearly sorted already.
  for (size_t i = 1; i < items.size(); ++i) {
    const Item item = items[i];
    size_t j = i;
    for (; j > 0 && (items[j - 1].at > item.at ||
                     (items[j - 1].at == item.at && items[j - 1].received > item.received));
         --j) {
      items[j] = items[j - 1];
    }
    items[j] = item;
  }
  bool changed = false;
  const size_t count = items.size();
  for (size_t i = 0; i < count; ++i) changed |= Consider(index, i, second);
  if (changed) {
    items.erase(std::remove_if(items.begin(), items.end(), [](const Item& i) { return i.served; }),
                items.end());
  }
  FindDue(nodes_[static_cast<size_t>(index)], second);
  return changed;
}

// Items of earlier seconds are lost.
void SkipPipeSimulator::FindDue(Node& node, double second) const {
  node.due = kNever;
  for (const Item& item : node.items) {
    if (item.at >= second) node.due = std::min(node.due, item.at);
  }
}

double SkipPipeSimulator::NextSecond(double second) {
  double due = kNever;
  for (Node& node : nodes_) {
    if (node.due < second) FindDue(node, second);
    due = std::min(due, node.due);
  }
  return std::floor(due);
}

SkipPipeOutcome SkipPipeSimulator::Simulate(double limit_s) {
  for (double second = NextSecond(0); second < kSecondsMax && done_ < microbatches_.size();
       second = NextSecond(second + 1)) {
    if (second > limit_s) break;
    // A look in which nobody moved leaves nothing for the remaining looks of its second.
    bool changed = true;
    for (int look = 0; look < kLooksPerSecond && changed; ++look) {
      changed = false;
      for (int32_t i = 0; i < problem_.nodes(); ++i) {
        if (nodes_[static_cast<size_t>(i)].due < second + 1) changed |= Look(i, second);
      }
    }
  }
  return {end_, static_cast<int32_t>(microbatches_.size() - done_)};
}

SkipPipeOutcome SkipPipeSimulator::Run(const SkipPipeSchedule& schedule) {
  Reset();
  for (const SkipPipeMicrobatch& microbatch : schedule.microbatches) {
    Add({microbatch.path.data(), static_cast<int32_t>(microbatch.path.size()), microbatch.lane,
         microbatch.wave},
        microbatch.release_s);
  }
  return Simulate(kNever);
}

double SkipPipeSimulator::IterationSeconds(const SkipPipeSchedule& schedule) {
  const SkipPipeOutcome outcome = Run(schedule);
  return outcome.lost > 0 ? kNever : outcome.end_s;
}

double SkipPipeSimulator::IterationSeconds(const FlatSchedule& schedule, double limit_s) {
  Reset();
  for (int32_t m = 0; m < schedule.size(); ++m) {
    const auto& microbatch = schedule.microbatches[static_cast<size_t>(m)];
    Add({&schedule.path[schedule.Index(m, 0)], schedule.length, microbatch.lane, microbatch.wave},
        microbatch.release_s);
  }
  const SkipPipeOutcome outcome = Simulate(limit_s);
  return outcome.lost > 0 || outcome.end_s > limit_s ? kNever : outcome.end_s;
}

}  // namespace skerry
