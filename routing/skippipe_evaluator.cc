#include "routing/skippipe_evaluator.h"

#include <algorithm>
#include <limits>

#include "common/check.h"

namespace skerry {

FlatSchedule Flatten(const SkipPipeSchedule& schedule) {
  FlatSchedule flat;
  for (const SkipPipeMicrobatch& microbatch : schedule.microbatches) {
    flat.length = static_cast<int32_t>(microbatch.path.size());
    SKERRY_CHECK(microbatch.path.size() == schedule.microbatches.front().path.size());
    flat.path.insert(flat.path.end(), microbatch.path.begin(), microbatch.path.end());
    flat.microbatches.push_back({microbatch.lane, microbatch.wave, microbatch.release_s});
  }
  return flat;
}

SkipPipeEvaluator::SkipPipeEvaluator(const SkipPipeProblem& problem)
    : problem_(problem), nodes_(problem.forward_s.size()) {}

void SkipPipeEvaluator::Reset(const FlatSchedule& schedule) {
  schedule_ = &schedule;
  events_.clear();
  created_ = 0;
  done_ = 0;
  for (Node& node : nodes_) {
    node.free_at = 0;
    node.memory = problem_.in_flight;
    node.wake = false;
    node.waiting.clear();
  }
  int32_t lanes = 0;
  for (const auto& microbatch : schedule.microbatches) {
    lanes = std::max(lanes, microbatch.lane + 1);
  }
  lane_open_.assign(static_cast<size_t>(lanes), 0);
  finished_.assign(schedule.microbatches.size(), std::numeric_limits<double>::infinity());
}

void SkipPipeEvaluator::Push(double at, Kind kind, int32_t node, int32_t microbatch, int32_t hop) {
  const Event event{at, created_++, node, microbatch, hop, kind};
  size_t child = events_.size();
  events_.push_back(event);
  while (child > 0) {
    const size_t parent = (child - 1) / 2;
    if (!events_[parent].IsAfter(event)) break;
    events_[child] = events_[parent];
    child = parent;
  }
  events_[child] = event;
}

SkipPipeEvaluator::Event SkipPipeEvaluator::Pop() {
  const Event top = events_.front();
  const Event last = events_.back();
  events_.pop_back();
  const size_t count = events_.size();
  if (count == 0) return top;
  size_t parent = 0;
  for (size_t child = 1; child < count; child = 2 * parent + 1) {
    if (child + 1 < count && events_[child].IsAfter(events_[child + 1])) ++child;
    if (!last.IsAfter(events_[child])) break;
    events_[parent] = events_[child];
    parent = child;
  }
  events_[parent] = last;
  return top;
}

bool SkipPipeEvaluator::IsReady(const Node& node, const Event& task) const {
  if (task.kind == Kind::kBackward || task.kind == Kind::kLoss) return true;
  if (node.memory <= 0) return false;
  if (task.kind == Kind::kForward) return true;
  const auto& microbatch = schedule_->microbatches[static_cast<size_t>(task.microbatch)];
  return microbatch.wave == 0 || lane_open_[static_cast<size_t>(microbatch.lane)] != 0;
}

void SkipPipeEvaluator::Send(double done, const Event& task, int32_t to_hop, Kind kind) {
  const int32_t to = schedule_->At(task.microbatch, to_hop);
  Push(done + problem_.TransferSeconds(task.node, to), kind, to, task.microbatch, to_hop);
}

void SkipPipeEvaluator::Serve(double now, const Event& task) {
  Node& node = nodes_[static_cast<size_t>(task.node)];
  const double forward = problem_.forward_s[static_cast<size_t>(task.node)];
  const int32_t last = schedule_->length - 1;
  double done = now + forward;
  double gap = problem_.task_gap_s;
  if (task.kind == Kind::kBackward) {
    done = now + forward * problem_.backward_factor;
    ++node.memory;
    if (task.hop > 0) {
      Send(done, task, task.hop - 1, Kind::kBackward);
    } else {
      const auto& microbatch = schedule_->microbatches[static_cast<size_t>(task.microbatch)];
      if (microbatch.wave == 0) lane_open_[static_cast<size_t>(microbatch.lane)] = 1;
      finished_[static_cast<size_t>(task.microbatch)] = done;
      ++done_;
    }
  } else if (task.kind == Kind::kLoss) {
    done = now + forward * problem_.loss_factor;
    Send(done, task, last, Kind::kBackward);
  } else {
    --node.memory;
    if (task.kind == Kind::kStart) gap = problem_.start_gap_s;
    if (task.hop < last) {
      Send(done, task, task.hop + 1, Kind::kForward);
    } else {
      Send(done, task, 0, Kind::kLoss);
    }
  }
  node.free_at = done + gap;
  if (!node.waiting.empty()) {
    node.wake = true;
    Push(node.free_at, Kind::kWake, task.node, 0, 0);
  }
}

void SkipPipeEvaluator::Arrive(const Event& event) {
  Node& node = nodes_[static_cast<size_t>(event.node)];
  if (event.at >= node.free_at && !node.wake && IsReady(node, event)) {
    return Serve(event.at, event);
  }
  node.waiting.push_back(event);
  if (event.at < node.free_at && !node.wake) {
    node.wake = true;
    Push(node.free_at, Kind::kWake, event.node, 0, 0);
  }
}

void SkipPipeEvaluator::Wake(const Event& event) {
  Node& node = nodes_[static_cast<size_t>(event.node)];
  node.wake = false;
  auto chosen = node.waiting.end();
  for (auto it = node.waiting.begin(); it != node.waiting.end(); ++it) {
    if (!IsReady(node, *it)) continue;
    if (chosen == node.waiting.end()) chosen = it;
    if (it->kind != Kind::kStart) {
      chosen = it;
      break;
    }
  }
  if (chosen == node.waiting.end()) return;
  const Event task = *chosen;
  node.waiting.erase(chosen);
  Serve(event.at, task);
}

double SkipPipeEvaluator::IterationSeconds(const FlatSchedule& schedule) {
  Reset(schedule);
  for (int32_t m = 0; m < schedule.size(); ++m) {
    Push(schedule.microbatches[static_cast<size_t>(m)].release_s, Kind::kStart, schedule.At(m, 0),
         m, 0);
  }
  while (!events_.empty()) {
    const Event event = Pop();
    if (event.kind == Kind::kWake) {
      Wake(event);
    } else {
      Arrive(event);
    }
  }
  if (done_ < schedule.size()) return std::numeric_limits<double>::infinity();
  return *std::max_element(finished_.begin(), finished_.end());
}

}  // namespace skerry
