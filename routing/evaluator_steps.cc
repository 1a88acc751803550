// When a node's next step opens: after its visits, what its cohort sums, and the optimizer.
#include <algorithm>
#include <utility>

#include "routing/evaluator.h"
#include "routing/line_sharing.h"

namespace skerry {

// Steps in which a slot has nothing to do are over at once.
void Evaluator::OpenSteps(Server& server, int32_t slot) const {
  const auto& visits = visits_[static_cast<size_t>(slot)];
  while (server.step < workload_.steps) {
    server.left = visits[static_cast<size_t>(server.step)];
    if (server.left > 0) return;
    ++server.step;
  }
}

// All members have done what they have to do in a step, if there is one.
void Evaluator::SumSoon(double now, int32_t ring) {
  const auto& of_slot = rings_->ring_of_slot;
  const auto first = std::find(of_slot.begin(), of_slot.end(), ring) - of_slot.begin();
  if (servers_[static_cast<size_t>(first)].step == workload_.steps) return;
  Event opens;
  opens.ring = ring;
  Schedule(now + rings_->seconds[static_cast<size_t>(ring)], opens);
}

// Of a ring the members' next step opens together; who has nothing to do in it keeps nobody.
void Evaluator::OpenTogether(double now, int32_t ring) {
  int32_t& working = working_[static_cast<size_t>(ring)];
  const auto& of_slot = rings_->ring_of_slot;
  bool is_last = true;
  for (size_t slot = 0; slot < of_slot.size(); ++slot) {
    if (of_slot[slot] != ring) continue;
    const auto next = static_cast<size_t>(servers_[slot].step) + 1;
    is_last = next == static_cast<size_t>(workload_.steps);
    working += !is_last && visits_[slot][next] > 0 ? 1 : 0;
  }
  end_ = std::max(end_, now);
  const bool is_idle = !is_last && working == 0;
  double slowest = 0;  // of their optimizers
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) {
    if (of_slot[static_cast<size_t>(slot)] != ring) continue;
    Server& server = servers_[static_cast<size_t>(slot)];
    const double steps_s = TaskSeconds(slot, Task::kStep);
    slowest = std::max(slowest, steps_s);
    server.steps_next = !is_idle && steps_s > 0;
    if (!server.steps_next) OpenNext(slot);
    if (!is_idle && !server.busy) Dispatch(now, slot);
  }
  if (is_idle) SumSoon(now + slowest, ring);
}

void Evaluator::OpenNext(int32_t slot) {
  Server& server = servers_[static_cast<size_t>(slot)];
  if (++server.step == workload_.steps) return;
  server.left = visits_[static_cast<size_t>(slot)][static_cast<size_t>(server.step)];
}

void Evaluator::EndStep(double now, int32_t slot) {
  const int32_t ring = RingOf(slot);
  if (ring < 0) {
    Server& server = servers_[static_cast<size_t>(slot)];
    server.steps_next = TaskSeconds(slot, Task::kStep) > 0;
    if (!server.steps_next) Stepped(now, slot);
    return;
  }
  if (rings_->overlap) return GoOn(now, slot);
  if (--working_[static_cast<size_t>(ring)] == 0) SumSoon(now, ring);
}

// The optimizer's step of the open step is done.
void Evaluator::Stepped(double now, int32_t slot) {
  Server& server = servers_[static_cast<size_t>(slot)];
  if (RingOf(slot) < 0) {
    ++server.step;
    OpenSteps(server, slot);
  } else if (rings_->overlap) {
    GoOn(now, slot, true);
  } else {
    OpenNext(slot);
  }
}

void Evaluator::SendRound(double now, int32_t slot) {
  if (std::exchange(has_sent_[static_cast<size_t>(slot)], uint8_t{1}) != 0) return;
  for (size_t m = 0; m < round_ways_.size(); ++m) {
    const RoundMessages::Message& message = round_->messages[m];
    if (message.from == slot) sharing_->Send(now, round_ways_[m], message.share, kNoEvent, true);
  }
}

// With overlap: a member whose step is over opens the next, and gives its part of this one, when
// the sum of the step before is there and stepped on. In the first step there is none, but a model
// of few steps stands for many.
void Evaluator::GoOn(double now, int32_t slot, bool has_stepped) {
  Server& server = servers_[static_cast<size_t>(slot)];
  const auto ring = static_cast<size_t>(RingOf(slot));
  while (server.left == 0 && server.step < workload_.steps && server.step <= summed_[ring]) {
    if (!std::exchange(has_stepped, false) && TaskSeconds(slot, Task::kStep) > 0) {
      server.steps_next = true;
      return;
    }
    OpenNext(slot);
    if (server.step == workload_.steps || --working_[ring] > 0) continue;
    Event there;
    there.ring = static_cast<int32_t>(ring);
    Schedule(now + rings_->seconds[ring], there);
  }
}

void Evaluator::SumIsThere(double now, int32_t ring) {
  const auto& of_slot = rings_->ring_of_slot;
  ++summed_[static_cast<size_t>(ring)];
  working_[static_cast<size_t>(ring)] =
      static_cast<int32_t>(std::count(of_slot.begin(), of_slot.end(), ring));
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) {
    if (of_slot[static_cast<size_t>(slot)] != ring) continue;
    GoOn(now, slot);
    if (!servers_[static_cast<size_t>(slot)].busy) Dispatch(now, slot);
  }
}

}  // namespace skerry
