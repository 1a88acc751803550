#include "routing/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/check.h"
#include "routing/cost_model.h"
#include "routing/line_sharing.h"
#include "routing/node_lines.h"

namespace skerry {
namespace {

constexpr size_t kHeapDegree = 4;  // PopDue compares in two pairs
// What is left of a node's tasks is their sum in another order than that in which they end.
constexpr double kRounding = 1e-9;

}  // namespace

Evaluator::Evaluator(const Workload& workload, const Fleet& fleet, Lines lines,
                     const RoundMessages* round)
    : workload_(workload),
      fleet_(fleet),
      lines_(LinesOf(fleet)),
      starts_(static_cast<size_t>(workload.slots())),
      visits_(static_cast<size_t>(workload.slots()),
              std::vector<int32_t>(static_cast<size_t>(workload.steps))),
      servers_(static_cast<size_t>(workload.slots())),
      round_(round) {
  SKERRY_CHECK(!workload.microbatches.empty() && workload.in_flight >= 1);
  SKERRY_CHECK(round == nullptr || lines == Lines::kShared);
  for (size_t m = 0; m < workload.microbatches.size(); ++m) {
    const Workload::Microbatch& microbatch = workload.microbatches[m];
    starts_[static_cast<size_t>(microbatch.slots.front())].push_back(static_cast<int32_t>(m));
    for (const int32_t slot : microbatch.slots) {
      ++visits_[static_cast<size_t>(slot)][static_cast<size_t>(microbatch.step)];
    }
  }
  const auto slots_of_way = NumberLinks();
  if (lines == Lines::kShared)
    sharing_ = std::make_unique<LineSharing>(fleet, lines_, slots_of_way);
}

Evaluator::~Evaluator() = default;

std::vector<std::pair<int32_t, int32_t>> Evaluator::NumberLinks() {
  std::map<std::pair<int32_t, int32_t>, int32_t> numbers;
  const auto number = [&](int32_t from, int32_t to) {
    return numbers.try_emplace({from, to}, static_cast<int32_t>(numbers.size())).first->second;
  };
  for (const Workload::Microbatch& microbatch : workload_.microbatches) {
    first_way_.push_back(ways_.size());
    const size_t length = microbatch.slots.size();
    for (size_t hop = 0; hop < length; ++hop) {
      const int32_t slot = microbatch.slots[hop];
      ways_.push_back(number(slot, microbatch.slots[(hop + 1) % length]));
      ways_.push_back(number(slot, microbatch.slots[(hop + length - 1) % length]));
    }
  }
  if (round_ != nullptr) {
    for (const auto& message : round_->messages)
      round_ways_.push_back(number(message.from, message.to));
  }
  link_free_.resize(numbers.size());
  std::vector<std::pair<int32_t, int32_t>> slots(numbers.size());
  for (const auto& [pair, way] : numbers) slots[static_cast<size_t>(way)] = pair;
  return slots;
}

int32_t Evaluator::SlotAt(int32_t microbatch, int32_t hop) const {
  return workload_.microbatches[static_cast<size_t>(microbatch)].slots[static_cast<size_t>(hop)];
}

double Evaluator::TaskSeconds(int32_t slot, Task task) const {
  const int32_t node = (*placement_)[static_cast<size_t>(slot)];
  const double gflops = fleet_.gflops[static_cast<size_t>(node)];
  if (task == Task::kLoss) return ComputeSeconds(workload_.loss_flops, gflops);
  const int32_t stage = workload_.stage_of_slot[static_cast<size_t>(slot)];
  if (task == Task::kStep) {
    const double flops =
        workload_.step_flops.empty() ? 0 : workload_.step_flops[static_cast<size_t>(stage)];
    return (flops > 0 ? ComputeSeconds(flops, gflops) : 0) + fleet_.HostStepOf(stage, node);
  }
  const double forward =
      ComputeSeconds(workload_.forward_flops[static_cast<size_t>(stage)], gflops);
  if (task == Task::kForward || task == Task::kStart) return forward;
  return (kBackwardPerForward + fleet_.RepeatsOf(stage, node)) * forward;
}

void Evaluator::Reset() {
  due_.clear();
  events_.clear();
  free_events_.clear();
  created_ = 0;
  end_ = 0;
  is_usable_ = true;
  std::fill(link_free_.begin(), link_free_.end(), 0.0);
  line_free_.assign(2 * fleet_.line_s.size(), 0.0);  // ways out, ways in
  if (sharing_ != nullptr) sharing_->Reset(*placement_);
  has_sent_.assign(servers_.size(), 0);
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) {
    Server& server = servers_[static_cast<size_t>(slot)];
    server.ready.clear();
    server.busy = server.steps_next = false;
    server.step = 0;
    server.in_flight = 0;
    server.uplink_free = 0;
    server.downlink_free = 0;
    server.busy_s = 0;
    server.left_s = 0;
    server.next_start = 0;
    OpenSteps(server, slot);
  }
  if (rings_ == nullptr) return;
  working_.assign(rings_->seconds.size(), 0);
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) {
    if (RingOf(slot) < 0) continue;
    Server& server = servers_[static_cast<size_t>(slot)];
    server.step = 0;
    server.left = visits_[static_cast<size_t>(slot)].front();
    working_[static_cast<size_t>(RingOf(slot))] += server.left > 0 || rings_->overlap ? 1 : 0;
  }
  summed_.assign(working_.size(), 0);
  for (int32_t slot = 0; rings_->overlap && slot < workload_.slots(); ++slot) {
    if (RingOf(slot) >= 0) GoOn(0, slot);
  }
  for (size_t ring = 0; ring < working_.size() && !rings_->overlap; ++ring) {
    if (working_[ring] == 0) SumSoon(0, static_cast<int32_t>(ring));
  }
}

// Of what every slot computes in all steps.
void Evaluator::CountLeft() {
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) {
    const auto& visits = visits_[static_cast<size_t>(slot)];
    const auto starts = static_cast<double>(starts_[static_cast<size_t>(slot)].size());
    double all = 0, steps = 0;
    for (const int32_t of_step : visits) {
      all += of_step;
      steps += of_step > 0 ? 1 : 0;
    }
    servers_[static_cast<size_t>(slot)].left_s =
        all * (TaskSeconds(slot, Task::kForward) + TaskSeconds(slot, Task::kBackward)) +
        starts * TaskSeconds(slot, Task::kLoss) + steps * TaskSeconds(slot, Task::kStep);
  }
}

uint32_t Evaluator::Keep(const Event& event) {
  if (free_events_.empty()) {
    free_events_.push_back(static_cast<uint32_t>(events_.size()));
    events_.emplace_back();
  }
  const uint32_t kept = free_events_.back();
  free_events_.pop_back();
  events_[kept] = event;
  return kept;
}

void Evaluator::Push(double at, uint32_t event) {
  const Due due{at, created_++, event};
  size_t place = due_.size();
  due_.push_back(due);
  while (place > 0) {
    const size_t parent = (place - 1) / kHeapDegree;
    if (!(due_[parent] > due)) break;
    due_[place] = due_[parent];
    place = parent;
  }
  due_[place] = due;
}

Evaluator::Due Evaluator::PopDue() {
  const Due first = due_.front();
  const Due last = due_.back();
  due_.pop_back();
  const size_t size = due_.size();
  if (size == 0) return first;
  size_t place = 0;
  const auto earlier = [this](size_t a, size_t b) { return due_[a] > due_[b] ? b : a; };
  for (size_t child = 1; child < size; child = place * kHeapDegree + 1) {
    size_t least = child;
    if (child + kHeapDegree <= size) {  // no comparison waits for more than one other
      least = earlier(earlier(child, child + 1), earlier(child + 2, child + 3));
    } else {
      for (size_t other = child + 1; other < size; ++other) least = earlier(least, other);
    }
    if (!(last > due_[least])) break;
    due_[place] = due_[least];
    place = least;
  }
  due_[place] = last;
  return first;
}

void Evaluator::Send(double now, int32_t microbatch, int32_t from_hop, int32_t to_hop, Task task) {
  const int32_t from_slot = SlotAt(microbatch, from_hop);
  const int32_t to_slot = SlotAt(microbatch, to_hop);
  const Event arrives{to_slot, microbatch, to_hop, task};
  if (from_slot == to_slot) return Schedule(now, arrives);
  const int32_t from = (*placement_)[static_cast<size_t>(from_slot)];
  const int32_t to = (*placement_)[static_cast<size_t>(to_slot)];
  const size_t pair = fleet_.Pair(from, to);
  const size_t way =
      first_way_[static_cast<size_t>(microbatch)] + 2 * static_cast<size_t>(from_hop);
  const int32_t link = ways_[way + (task == Task::kBackward ? 1 : 0)];
  const double latency_s = fleet_.latency_s[pair];
  const double share = fleet_.ShareOf(pair);
  // A missing link is only in the way if a path uses it.
  is_usable_ &= !std::isinf(latency_s);
  if (sharing_ != nullptr) {
    if (is_usable_) sharing_->Send(now, link, share, Keep(arrives));
    return;
  }
  const int32_t out = fleet_.LineOf(from, to), in = fleet_.LineOf(to, from);
  double& uplink_free = out < 0 ? servers_[static_cast<size_t>(from_slot)].uplink_free
                                : line_free_[static_cast<size_t>(out)];
  double& downlink_free = in < 0 ? servers_[static_cast<size_t>(to_slot)].downlink_free
                                 : line_free_[fleet_.line_s.size() + static_cast<size_t>(in)];
  double& link_free = link_free_[static_cast<size_t>(link)];
  const double start = std::max({now, uplink_free, link_free});
  uplink_free = std::max(now, uplink_free) + share * lines_.up_s[pair];
  link_free = start + share * fleet_.wire_s[pair];
  // Of messages under way at once the one sent first is received first.
  downlink_free = std::max(start + latency_s, downlink_free) + share * lines_.down_s[pair];
  Schedule(std::max(link_free + latency_s, downlink_free) + share * fleet_.handling_s, arrives);
}

// A message has left its sender.
void Evaluator::Leave() {
  const double now = sharing_->NextEnd();
  const LineSharing::Left left = sharing_->Leave();
  if (left.tag == kNoEvent) return;  // of the round
  const size_t pair = sharing_->PairOf(left.way);
  const double handled_s = fleet_.ShareOf(pair) * fleet_.handling_s;
  Push(now + fleet_.latency_s[pair] + handled_s, left.tag);
}

void Evaluator::Arrive(double now, const Event& event) {
  Server& server = servers_[static_cast<size_t>(event.slot)];
  const int32_t step = workload_.microbatches[static_cast<size_t>(event.microbatch)].step;
  server.ready.push_back({step, event.task, event.microbatch, event.hop, now});
  if (!server.busy) Dispatch(now, event.slot);
}

void Evaluator::Finish(double now, const Event& event) {
  Server& server = servers_[static_cast<size_t>(event.slot)];
  if (event.task == Task::kStep) {
    server.busy = false;
    end_ = now;
    Stepped(now, event.slot);
    return Dispatch(now, event.slot);
  }
  const auto length = static_cast<int32_t>(
      workload_.microbatches[static_cast<size_t>(event.microbatch)].slots.size());
  server.busy = false;
  if (event.task == Task::kBackward) {
    if (event.hop > 0) {
      Send(now, event.microbatch, event.hop, event.hop - 1, Task::kBackward);
    } else {
      --server.in_flight;
    }
    end_ = now;
    server.last_microbatch = event.microbatch;
    server.last_hop = event.hop;
    if (--server.left == 0) EndStep(now, event.slot);
  } else if (event.task == Task::kLoss) {
    Send(now, event.microbatch, 0, length - 1, Task::kBackward);
  } else if (event.hop + 1 < length) {
    Send(now, event.microbatch, event.hop, event.hop + 1, Task::kForward);
  } else {
    Send(now, event.microbatch, event.hop, 0, Task::kLoss);
  }
  Dispatch(now, event.slot);
}

bool Evaluator::Choose(Server& server, int32_t slot, Ready& chosen) const {
  auto best = server.ready.end();
  for (auto it = server.ready.begin(); it != server.ready.end(); ++it) {
    if (it->step <= server.step && (best == server.ready.end() || *it < *best)) best = it;
  }
  if (best != server.ready.end()) {
    chosen = *best;
    *best = server.ready.back();
    server.ready.pop_back();
    return true;
  }
  const auto& starts = starts_[static_cast<size_t>(slot)];
  if (server.next_start >= starts.size() || server.in_flight >= workload_.in_flight) return false;
  const int32_t microbatch = starts[server.next_start];
  const int32_t step = workload_.microbatches[static_cast<size_t>(microbatch)].step;
  if (step > server.step) return false;
  ++server.next_start;
  ++server.in_flight;
  chosen = {step, Task::kStart, microbatch, 0, 0};
  return true;
}

void Evaluator::Dispatch(double now, int32_t slot) {
  Server& server = servers_[static_cast<size_t>(slot)];
  if (round_ != nullptr && server.step >= round_->after_steps) SendRound(now, slot);
  Ready chosen = {server.step, Task::kStep, server.last_microbatch, server.last_hop, now};
  if (!std::exchange(server.steps_next, false) && !Choose(server, slot, chosen)) return;
  const double seconds = TaskSeconds(slot, chosen.task);
  server.busy = true;
  server.busy_s += seconds;
  ++tasks_;
  is_usable_ &= now + server.left_s <= end_max_;
  server.left_s -= seconds;
  if (records_ != nullptr) {
    records_->push_back(
        {slot, chosen.microbatch, chosen.hop, chosen.task, chosen.arrived_s, now, now + seconds});
  }
  Schedule(now + seconds, {slot, chosen.microbatch, chosen.hop, chosen.task, true});
}

void Evaluator::HandleNext() {
  const Due due = PopDue();
  const Event event = events_[due.event];
  free_events_.push_back(due.event);
  if (event.ring >= 0) {
    rings_->overlap ? SumIsThere(due.at, event.ring) : OpenTogether(due.at, event.ring);
  } else if (event.done) {
    Finish(due.at, event);
  } else {
    Arrive(due.at, event);
  }
}

double Evaluator::StepSeconds(const Placement& placement, const StepRings* rings, double limit_s) {
  SKERRY_CHECK(placement.size() == servers_.size());
  placement_ = &placement;
  rings_ = rings;
  end_max_ = limit_s * workload_.steps * (1 + kRounding);
  Reset();
  if (!std::isinf(limit_s)) CountLeft();
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) Dispatch(0, slot);
  while (is_usable_) {
    const double at = due_.empty() ? std::numeric_limits<double>::infinity() : due_.front().at;
    if (sharing_ != nullptr && sharing_->NextEnd() <= at && !std::isinf(sharing_->NextEnd())) {
      Leave();
    } else if (!due_.empty()) {
      HandleNext();
    } else {
      break;
    }
  }
  if (!is_usable_) return std::numeric_limits<double>::infinity();
  for (const Server& server : servers_) {
    SKERRY_CHECK(server.step == workload_.steps, "every visit is done: paths cannot deadlock");
  }
  const double step_s = end_ / workload_.steps;
  return step_s > limit_s ? std::numeric_limits<double>::infinity() : step_s;
}

std::vector<TaskRecord> Evaluator::Trace(const Placement& placement, const StepRings* rings) {
  std::vector<TaskRecord> records;
  records_ = &records;
  const double step_s = StepSeconds(placement, rings);
  records_ = nullptr;
  if (std::isinf(step_s)) records.clear();
  return records;
}

Evaluation Evaluator::Evaluate(const Placement& placement, const StepRings* rings) {
  Evaluation evaluation;
  evaluation.step_s = StepSeconds(placement, rings);
  if (std::isinf(evaluation.step_s)) return evaluation;
  for (const Server& server : servers_) {
    const double busy = server.busy_s / workload_.steps;
    evaluation.busy_s.push_back(busy);
    evaluation.waiting_s.push_back(evaluation.step_s - busy);
  }
  const auto most = std::max_element(evaluation.busy_s.begin(), evaluation.busy_s.end());
  evaluation.critical_slot = static_cast<int32_t>(most - evaluation.busy_s.begin());
  return evaluation;
}

}  // namespace skerry
