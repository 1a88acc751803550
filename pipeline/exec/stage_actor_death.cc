// What a death changes: attempts are voided and made again along a patched path, or dropped for
// good.

#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/exec/stage_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {

// Only who leads a microbatch may void it.
std::optional<NodeId> StageActor::LeaderOf(Key key) const {
  if (key.first < 0 || key.first > step_ + kVoidAheadMax || key.second < 0 ||
      key.second >= plan_->microbatches_per_step) {
    return std::nullopt;
  }
  const auto home = HomeOf(plan_, key.first, key.second);
  if (!home || NodeOf(plan_, *home) == options_.self) return std::nullopt;
  return NodeOf(plan_, *home);
}

void StageActor::OnVoid(Context& context, const NodeId& from, const MicrobatchVoid& message) {
  const Key key{message.step, message.microbatch};
  if (message.attempt < 0 || LeaderOf(key) != from) return void(++refused_);
  if (!IsVoid(key, from, message.attempt)) void_[key] = {from, message.attempt};
  Disturb();
  const auto it = visits_.find(key);
  if (it == visits_.end()) return;
  if (it->second.attempt != message.attempt || NodeAt(it->second.path, 0) != from) {
    return void(++refused_);
  }
  // The next attempt comes through here, unless the sender says that none does.
  Drop(context, key);
  if (message.step == step_ && pending_.contains(message.microbatch)) {
    Visit& again = visits_[key];
    again.path = PathOf(plan_, message.step, message.microbatch);
    const auto own = std::find_if(again.path.begin(), again.path.end(), [&](const Slot& slot) {
      return NodeOf(plan_, slot) == options_.self;
    });
    again.hop = own == again.path.end() ? 1 : static_cast<int32_t>(own - again.path.begin());
    again.attempt = message.attempt + 1;
  }
}

bool StageActor::IsVoid(Key key, const NodeId& home, int32_t attempt) const {
  const auto it = void_.find(key);
  return it != void_.end() && it->second.home == home && attempt <= it->second.attempt;
}

void StageActor::OnVoidList(Context& context, const NodeId& from, const VoidList& message,
                            bool passed_on) {
  if (message.to != options_.self) return void(++refused_);
  for (const VoidList::Microbatch& ended : message.microbatches) {
    const Key key{ended.step, ended.microbatch};
    const auto leader = LeaderOf(key);
    if (!leader || (*leader != from && !passed_on)) {
      ++refused_;
      continue;
    }
    void_[key] = {*leader, std::numeric_limits<int32_t>::max()};
    DropForGood(context, key);
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
// path hear that. Own ones that are over went through the dead: who stands in for them hears it,
// also who was so late that it may still be in an older step.
void StageActor::VoidPast(Context& context, const PipelinePlan& before) {
  const int32_t count = plan_->microbatches_per_step;
  const auto slot = SlotOf(plan_, options_.self);
  if (!slot || slot->stage != 0) return;
  int64_t oldest = step_ - options_.lag_max;
  if (avoidance_) oldest = std::min(oldest, avoidance_->OldestStep());
  std::map<NodeId, std::vector<VoidList::Microbatch>> ended;
  for (int64_t step = std::max({int64_t{0}, oldest, step_ - kVoidAheadMax}); step <= step_;
       ++step) {
    for (int32_t m = 0; m < count; ++m) {
      if (HomeOf(plan_, step, m) != slot) continue;
      const Path now = PathOf(plan_, step, m), past = PathOf(before, step, m);
      if (now == past) continue;
      const bool inherited = past.front() != now.front();
      if (!inherited && !IsOver({step, m})) continue;
      for (size_t hop = 1; hop < now.size(); ++hop) {
        const bool knows = std::find(past.begin(), past.end(), now[hop]) != past.end();
        if (knows && !inherited) continue;
        ended[NodeAt(now, static_cast<int32_t>(hop))].push_back({step, m});
      }
    }
  }
  for (const auto& [node, keys] : ended) SayEnded(context, node, keys);
}

void StageActor::SayEnded(Context& context, const NodeId& node,
                          std::span<const VoidList::Microbatch> keys) {
  for (size_t first = 0; first < keys.size(); first += kVoidListMax) {
    const auto part = keys.subspan(first, std::min(kVoidListMax, keys.size() - first));
    const VoidList list{node, {part.begin(), part.end()}, plan_->version};
    options_.send(context, node, list);
    if (lateness_ && options_.pass_on) options_.pass_on(context, list);
  }
}

void StageActor::Drop(Context& context, Key key) {
  Discard(context, key);
  visits_.erase(key);
}

void StageActor::Restart(Context& context, Key key, Visit& visit) {
  if (visit.state != State::kExpected) {
    for (size_t hop = 1; hop < visit.path.size(); ++hop) {
      const NodeId node = NodeAt(visit.path, static_cast<int32_t>(hop));
      if (WorksAt(plan_, node, key.first)) {
        options_.send(context, node,
                      MicrobatchVoid{key.first, key.second, visit.attempt, plan_->version});
      }
    }
    Discard(context, key);
  }
  if (avoidance_) avoidance_->OnGivenUp(key);
  Disturb();
  ++visit.attempt;
  visit.state = State::kExpected;
  visit.input = {};
  visit.has_gradient = false;
  visit.path = PathOf(plan_, key.first, key.second);
  visit.late_hops.clear();
}

void StageActor::OnPlan(Context& context, const SharedPlan& plan) {
  if (plan->version <= plan_->version) return;
  const SharedPlan before = std::exchange(plan_, plan);
  ForgetAvoided(before);
  VoidPast(context, before);
  std::vector<Key> orphans;
  for (auto& [key, visit] : visits_) {
    if (visit.path.empty() || visit.state == State::kDone || IsGivenAway(key)) continue;
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
