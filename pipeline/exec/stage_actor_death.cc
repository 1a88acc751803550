// What a death changes: attempts are voided and made again along a patched path, or dropped for
// good.

#include <algorithm>
#include <utility>

#include "pipeline/exec/stage_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {

void StageActor::OnVoid(Context& context, const NodeId& from, const MicrobatchVoid& message) {
  const Key key{message.step, message.microbatch};
  if (message.attempt == kForGood) {
    const auto slot = SlotOf(plan_, from);
    if (!slot || slot->stage != 0 || message.step > step_ + options_.lag_max)
      return void(++refused_);
    return DropForGood(context, key);
  }
  const auto it = visits_.find(key);
  if (it == visits_.end()) return;
  Visit& visit = it->second;
  if (IsOwn(visit) || visit.attempt != message.attempt || NodeAt(visit.path, 0) != from) {
    ++refused_;
    return;
  }
  // A live node of the old path is on the patched one too: the next attempt will come through here.
  Drop(context, key);
  if (message.step == step_ && pending_.contains(message.microbatch)) {
    Visit& again = visits_[key];
    again.path = PathOf(plan_, message.step, message.microbatch);
    again.hop = 1;
    again.attempt = message.attempt + 1;
  }
}

void StageActor::DropForGood(Context& context, Key key) {
  if (key.first > step_) voided_.insert(key);
  const auto it = visits_.find(key);
  if (it == visits_.end() || IsOwn(it->second) || it->second.state == State::kDone) return;
  Drop(context, key);
  if (key.first == step_) pending_.erase(key.second);
  AccumulateReady(context);
  CloseStepIfOver(context);
}

bool StageActor::IsOver(Key key) const {
  const auto it = visits_.find(key);
  return it == visits_.end() || it->second.state == State::kDone;
}

// Of steps begun here, others may be behind, and must not wait for what nobody will send them.
// Microbatches of a dead stage-0 node pass to its heir from the heir's next step on: all of the
// path hear that. Own ones that are over went through the dead: who stands in for them hears it.
void StageActor::VoidPast(Context& context, const PipelinePlan& before) {
  const int32_t count = plan_.microbatches_per_step;
  const auto slot = SlotOf(plan_, options_.self);
  if (!slot || slot->stage != 0) return;
  for (int64_t step = std::max<int64_t>(0, step_ - options_.lag_max); step <= step_; ++step) {
    for (int32_t m = 0; m < count; ++m) {
      if (HomeOf(plan_, step, m) != slot) continue;
      const Path now = PathOf(plan_, step, m), past = PathOf(before, step, m);
      if (now == past) continue;
      const bool inherited = past.front() != now.front();
      if (!inherited && !IsOver({step, m})) continue;
      for (size_t hop = 1; hop < now.size(); ++hop) {
        const bool knows = std::find(past.begin(), past.end(), now[hop]) != past.end();
        if (knows && !inherited) continue;
        options_.send(context, NodeAt(now, static_cast<int32_t>(hop)),
                      MicrobatchVoid{step, m, kForGood, plan_.version});
      }
    }
  }
}

void StageActor::Drop(Context& context, Key key) {
  StageWork* work = options_.work;
  context.Submit({"discard", Duration(), [work, key] { work->Discard(key.first, key.second); }});
  visits_.erase(key);
}

void StageActor::Restart(Context& context, Key key, Visit& visit) {
  if (visit.state != State::kExpected) {
    for (size_t hop = 1; hop < visit.path.size(); ++hop) {
      const NodeId node = NodeAt(visit.path, static_cast<int32_t>(hop));
      if (WorksAt(plan_, node, key.first)) {
        options_.send(context, node,
                      MicrobatchVoid{key.first, key.second, visit.attempt, plan_.version});
      }
    }
    StageWork* work = options_.work;
    context.Submit({"discard", Duration(), [work, key] { work->Discard(key.first, key.second); }});
  }
  ++visit.attempt;
  visit.state = State::kExpected;
  visit.input = nullptr;
  visit.has_gradient = false;
  visit.path = PathOf(plan_, key.first, key.second);
}

void StageActor::OnPlan(Context& context, const PipelinePlan& plan) {
  if (plan.version <= plan_.version) return;
  const PipelinePlan before = std::exchange(plan_, plan);
  VoidPast(context, before);
  std::vector<Key> orphans;
  for (auto& [key, visit] : visits_) {
    if (visit.path.empty() || visit.state == State::kDone) continue;
    const int64_t step = key.first;
    if (IsOwn(visit)) {
      const bool broken = std::any_of(visit.path.begin(), visit.path.end(), [&](const Slot& slot) {
        return !WorksAt(plan_, NodeOf(plan_, slot), step);
      });
      if (broken) Restart(context, key, visit);
    } else if (!WorksAt(plan_, NodeAt(visit.path, 0), step)) {
      orphans.push_back(key);
    }
  }
  for (const Key& key : orphans) {
    Drop(context, key);
    if (key.first == step_) pending_.erase(key.second);
  }
  AccumulateReady(context);
  CloseStepIfOver(context);
}

}  // namespace skerry
