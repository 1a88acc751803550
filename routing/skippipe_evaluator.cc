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
    : problem_(problem), nodes_(problem.forward_s.size()) {
  SKERRY_CHECK(problem.nodes() < std::numeric_limits<int16_t>::max());
}

const SkipPipeEvaluator::Step& SkipPipeEvaluator::StepOf(const Event& task) const {
  return steps_[static_cast<size_t>(task.subject) * static_cast<size_t>(2 * length_ + 1) +
                static_cast<size_t>(task.position)];
}

void SkipPipeEvaluator::LoadTrip(int32_t microbatch) {
  const int32_t last = 2 * length_;
  Step* steps = &steps_[static_cast<size_t>(microbatch) * static_cast<size_t>(last + 1)];
  for (int32_t position = 0; position <= last; ++position) {
    const int32_t hop = position <= length_ ? position % length_ : last - position;
    const int32_t node = schedule_->At(microbatch, hop);
    const double factor = position < length_    ? 1.0
                          : position == length_ ? problem_.loss_factor
                                                : problem_.backward_factor;
    steps[position].node = node;
    steps[position].service_s = problem_.forward_s[static_cast<size_t>(node)] * factor;
  }
  steps[last].transfer_s = 0;
  steps[last].rest_s = steps[last].service_s;
  for (int32_t position = last - 1; position >= 0; --position) {
    Step& step = steps[position];
    const Step& next = steps[position + 1];
    step.transfer_s = problem_.TransferSeconds(step.node, next.node);
    step.rest_s = step.service_s + step.transfer_s + next.rest_s;
  }
}

void SkipPipeEvaluator::Reset(const FlatSchedule& schedule) {
  schedule_ = &schedule;
  done_ = 0;
  over_limit_ = false;
  end_s_ = 0;
  for (Node& node : nodes_) {
    node.free_at = 0;
    node.memory = problem_.in_flight;
    node.last = kNone;
    node.wake = false;
    node.waiting.clear();
  }
  if (length_ != schedule.length || loaded_.size() != schedule.path.size()) {
    length_ = schedule.length;
    loaded_.assign(schedule.path.size(), -1);
    steps_.resize(schedule.microbatches.size() * static_cast<size_t>(2 * length_ + 1));
    after_.resize(steps_.size());
    started_.resize(schedule.microbatches.size());
    reach_.resize(schedule.microbatches.size());
    follower_.resize(schedule.microbatches.size());
  }
  for (int32_t m = 0; m < schedule.size(); ++m) {
    const auto begin = static_cast<std::ptrdiff_t>(schedule.Index(m, 0));
    const auto path = schedule.path.begin() + begin;
    if (std::equal(path, path + length_, loaded_.begin() + begin)) continue;
    std::copy(path, path + length_, loaded_.begin() + begin);
    LoadTrip(m);
  }
  ResetLanes(schedule);
}

// What each microbatch cannot be faster than: its trip after its release and after its lane's
// first.
void SkipPipeEvaluator::ResetLanes(const FlatSchedule& schedule) {
  int32_t lanes = 0;
  for (const auto& microbatch : schedule.microbatches) {
    lanes = std::max(lanes, microbatch.lane + 1);
  }
  lane_open_.assign(static_cast<size_t>(lanes), 0);
  lane_first_.assign(static_cast<size_t>(lanes), kNone);
  reach_sum_ = 0;
  for (int32_t m = 0; m < schedule.size(); ++m) {
    const auto i = static_cast<size_t>(m);
    const auto& microbatch = schedule.microbatches[i];
    follower_[i] = kNone;
    started_[i] = kNotStarted;
    reach_[i] = microbatch.release_s + steps_[i * static_cast<size_t>(2 * length_ + 1)].rest_s;
    reach_sum_ += reach_[i];
    int32_t& first = lane_first_[static_cast<size_t>(microbatch.lane)];
    if (microbatch.wave == 0) first = first == kNone ? m : kAmbiguous;
  }
  for (int32_t m = 0; m < schedule.size(); ++m) {
    const auto i = static_cast<size_t>(m);
    const auto& microbatch = schedule.microbatches[i];
    const int32_t first = lane_first_[static_cast<size_t>(microbatch.lane)];
    if (microbatch.wave == 0 || first < 0) continue;
    int32_t& head = follower_[static_cast<size_t>(first)];
    follower_[i] = head;
    head = m;
  }
  for (int32_t m = 0; m < schedule.size(); ++m) {
    if (follower_[static_cast<size_t>(m)] != kNone) Reach(m, reach_[static_cast<size_t>(m)]);
  }
}

// Microbatch m is back no sooner than `end_s`, so its lane's others start no sooner.
void SkipPipeEvaluator::Reach(int32_t m, double end_s) {
  double& reach = reach_[static_cast<size_t>(m)];
  if (end_s > reach) {
    reach_sum_ += end_s - reach;
    reach = end_s;
    end_s_ = std::max(end_s_, end_s);
  }
  if (schedule_->microbatches[static_cast<size_t>(m)].wave > 0) return;
  const auto tasks = static_cast<size_t>(2 * length_ + 1);
  for (int32_t next = follower_[static_cast<size_t>(m)]; next != kNone;
       next = follower_[static_cast<size_t>(next)]) {
    const auto i = static_cast<size_t>(next);
    if (started_[i] != kNotStarted) continue;
    const double back = reach + problem_.task_gap_s + steps_[i * tasks].rest_s;
    if (back <= reach_[i]) continue;
    reach_sum_ += back - reach_[i];
    reach_[i] = back;
    end_s_ = std::max(end_s_, back);
  }
}

bool SkipPipeEvaluator::IsReady(const Node& node, const Event& task) const {
  if (task.position >= length_) return true;
  if (node.memory <= 0) return false;
  if (task.position > 0) return true;
  const auto& microbatch = schedule_->microbatches[static_cast<size_t>(task.subject)];
  return microbatch.wave == 0 || lane_open_[static_cast<size_t>(microbatch.lane)] != 0;
}

void SkipPipeEvaluator::Serve(double now, const Event& task, int32_t after) {
  const Step& step = StepOf(task);
  Node& node = nodes_[static_cast<size_t>(step.node)];
  const int32_t index = TaskIndex(task);
  after_[static_cast<size_t>(index)] = after;
  node.last = index;
  if (task.position == 0) started_[static_cast<size_t>(task.subject)] = now;
  const double reach = now + step.rest_s;
  if (reach > reach_[static_cast<size_t>(task.subject)]) {
    Reach(task.subject, reach);
    if (end_s_ + mean_share_ * reach_sum_ > limit_) over_limit_ = true;
  }
  const double done = now + step.service_s;
  if (task.position < length_) {
    --node.memory;
  } else if (task.position > length_) {
    ++node.memory;
  }
  if (task.position < 2 * length_) {
    events_.Push(done + step.transfer_s, task.subject, static_cast<int16_t>(task.position + 1));
  } else {
    const auto& microbatch = schedule_->microbatches[static_cast<size_t>(task.subject)];
    if (microbatch.wave == 0) lane_open_[static_cast<size_t>(microbatch.lane)] = 1;
    ++done_;
    if (done >= last_done_s_) {
      last_done_s_ = done;
      last_task_ = index;
    }
  }
  node.free_at = done + (task.position == 0 ? problem_.start_gap_s : problem_.task_gap_s);
  if (!node.waiting.empty()) {
    node.wake = true;
    events_.Push(node.free_at, static_cast<int16_t>(step.node), kWake);
  }
}

void SkipPipeEvaluator::Arrive(const Event& event) {
  const int32_t index = StepOf(event).node;
  Node& node = nodes_[static_cast<size_t>(index)];
  if (event.at >= node.free_at && !node.wake && IsReady(node, event)) {
    return Serve(event.at, event, event.position == 0 ? kNone : TaskIndex(event) - 1);
  }
  node.waiting.push_back(event);
  if (event.at < node.free_at && !node.wake) {
    node.wake = true;
    events_.Push(node.free_at, static_cast<int16_t>(index), kWake);
  }
}

void SkipPipeEvaluator::Wake(const Event& event) {
  Node& node = nodes_[static_cast<size_t>(event.subject)];
  node.wake = false;
  auto chosen = node.waiting.end();
  for (auto it = node.waiting.begin(); it != node.waiting.end(); ++it) {
    if (!IsReady(node, *it)) continue;
    if (chosen == node.waiting.end()) chosen = it;
    if (it->position > 0) {
      chosen = it;
      break;
    }
  }
  if (chosen == node.waiting.end()) return;
  const Event task = *chosen;
  node.waiting.erase(chosen);
  Serve(event.at, task, node.last);
}

double SkipPipeEvaluator::Cost(const FlatSchedule& schedule, double mean_weight, double limit) {
  limit_ = limit;
  mean_share_ = mean_weight / static_cast<double>(schedule.size());
  last_done_s_ = 0;
  Reset(schedule);
  if (horizon_s_ <= 0) horizon_s_ = 1 + 2 * steps_.front().rest_s;
  events_.Clear(horizon_s_);
  for (int32_t m = 0; m < schedule.size(); ++m) {
    events_.Push(schedule.microbatches[static_cast<size_t>(m)].release_s, static_cast<int16_t>(m),
                 0);
  }
  over_limit_ = end_s_ + mean_share_ * reach_sum_ > limit;
  while (!events_.empty() && !over_limit_) {
    const Event event = events_.Pop();
    if (event.position == kWake) {
      Wake(event);
    } else {
      Arrive(event);
    }
  }
  if (over_limit_ || done_ < schedule.size()) return std::numeric_limits<double>::infinity();
  // The sum of bounds has lost digits.
  end_s_ = last_done_s_;
  horizon_s_ = end_s_;
  return end_s_ + mean_share_ * reach_sum_;
}

double SkipPipeEvaluator::IterationSeconds(const FlatSchedule& schedule, double limit_s) {
  return Cost(schedule, 0, limit_s);
}

void SkipPipeEvaluator::CriticalPath(std::vector<Visit>& visits) const {
  visits.clear();
  const int32_t tasks = 2 * length_ + 1;
  for (int32_t task = last_task_; task != kNone; task = after_[static_cast<size_t>(task)]) {
    const int32_t position = task % tasks;
    visits.push_back(
        {task / tasks, position <= length_ ? position % length_ : tasks - 1 - position});
  }
}

}  // namespace skerry
