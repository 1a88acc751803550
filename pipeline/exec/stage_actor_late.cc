// Microbatches that are late: told of, or led around the node where they hang.

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "pipeline/exec/stage_actor.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kTicksFresh = 3;  // as long as what somebody said of a wait is believed

}  // namespace

Instant StageActor::LateClock(const Context& context) const {
  return lateness_ ? lateness_->Clock(context.now()) : context.now();
}

// What is under way while an attempt is given up may have waited for its turn behind that one: how
// long it took is no measure of the others' ways.
void StageActor::Disturb() {
  for (auto& [key, visit] : visits_) visit.was_disturbed = true;
}

// Of an own microbatch the whole tour, of others the way from here on and back.
void StageActor::NoteAnswer(Context& context, Key key, const Visit& visit) {
  if (!lateness_ || visit.was_disturbed) return;
  lateness_->Note(key.first, LateClock(context) - (IsOwn(visit) ? visit.started : visit.sent));
}

void StageActor::OnTick(Context& context) {
  if (!lateness_) return;
  lateness_->Tick(context.now());
  const Instant now = LateClock(context);
  int32_t reports = 0;
  std::vector<Key> late;
  for (const auto& [key, visit] : visits_) {
    if (visit.state != State::kAway) continue;
    const Duration waited = now - visit.sent;
    if (IsOwn(visit)) {
      if (waited > lateness_->Patience(visit.given_up)) late.push_back(key);
    } else if (waited > lateness_->ReportAfter() && reports < kReportsMax) {
      ++reports;
      options_.send(context, NodeAt(visit.path, 0),
                    HopLate{key.first, key.second, visit.attempt, visit.hop});
    }
  }
  for (const Key& key : late) LeadAround(context, key, visits_[key]);
}

void StageActor::OnHopLate(Context& context, const NodeId& from, const HopLate& message) {
  const auto it = visits_.find({message.step, message.microbatch});
  if (it == visits_.end() || !IsOwn(it->second)) return void(++refused_);
  Visit& visit = it->second;
  if (visit.state != State::kAway || visit.attempt != message.attempt) return;  // crossed an answer
  const bool on_path = message.hop >= 1 && static_cast<size_t>(message.hop) < visit.path.size() &&
                       NodeAt(visit.path, message.hop) == from;
  if (!on_path) return void(++refused_);
  visit.late_hops[message.hop] = LateClock(context);
}

// The hop at which an own microbatch hangs: everybody before it waits, and has said so. The last of
// the path is followed by this node, which is not late: then it is their link. Who waits for one
// node after the other is itself what they have in common.
int32_t StageActor::Culprit(Visit& visit, Instant now) const {
  const auto last = static_cast<int32_t>(visit.path.size()) - 1;
  int32_t furthest = 0;
  for (const auto& [hop, said] : visit.late_hops) {
    if (now - said <= options_.tick * kTicksFresh) furthest = std::max(furthest, hop);
  }
  const NodeId reporter = NodeAt(visit.path, furthest);
  const NodeId before = std::exchange(visit.last_reporter, reporter);
  if (furthest > 0 && reporter == before) return furthest;
  return std::min(furthest + 1, last);
}

// Whether the microbatch can go on without this node: by another replica of its stage, or without
// the stage.
bool StageActor::HasWayAround(Key key, const Visit& visit, const NodeId& node) const {
  if (options_.may_leave_out) return true;
  const int32_t stage = SlotOf(plan_, node)->stage;
  const auto& replicas = plan_->stages[static_cast<size_t>(stage)].replicas;
  return std::any_of(replicas.begin(), replicas.end(), [&](const NodeId& other) {
    return other != node && WorksAt(plan_, other, key.first) && !visit.around.contains(other);
  });
}

// Around the culprit; where there is no way around it, a second wait in vain tries the node before
// it: it may be their link. Else the attempt is waited for longer.
void StageActor::LeadAround(Context& context, Key key, Visit& visit) {
  const Instant now = LateClock(context);
  int32_t hop = Culprit(visit, now);
  if (!HasWayAround(key, visit, NodeAt(visit.path, hop)) && visit.given_up > 0) --hop;
  const NodeId culprit = NodeAt(visit.path, hop);
  ++visit.given_up;
  if (hop == 0 || !HasWayAround(key, visit, culprit)) return;
  const Duration waited = now - visit.sent;
  avoidance_->OnLate(culprit, key.first, visit.started, now);
  Restart(context, key, visit);
  ChoosePath(context, key, visit, &culprit, waited);
}

// Also by way of the coordinator: the link may be what is late.
void StageActor::VoidForGood(Context& context, const Detour& detour) {
  options_.send(context, detour.around,
                VoidList{detour.around, {{detour.step, detour.microbatch}}, plan_->version});
  if (lateness_ && options_.pass_on) options_.pass_on(context, detour);
}

// The path of an own microbatch that is about to start: around who is late. Whom the plan leads it
// through instead hears that it does not come.
void StageActor::ChoosePath(Context& context, Key key, Visit& visit, const NodeId* culprit,
                            Duration waited) {
  if (!avoidance_) return;
  const Instant now = LateClock(context);
  const auto shun = [&](const NodeId& node) {
    if ((culprit != nullptr && node == *culprit) || visit.around.contains(node))
      return Shun::kNever;
    return avoidance_->Avoids(node, key, now) ? Shun::kRather : Shun::kNo;
  };
  LedPath led = PathAround(plan_, key.first, key.second, options_.may_leave_out, shun);
  SKERRY_CHECK(!led.path.empty(), "a stage-0 node that works leads its own microbatches");
  visit.path = std::move(led.path);
  for (const NodeId& node : led.passed) {
    if (!visit.around.insert(node).second) continue;
    const bool is_culprit = culprit != nullptr && node == *culprit;
    const int32_t stage = SlotOf(plan_, node)->stage;
    const bool skipped = std::none_of(visit.path.begin(), visit.path.end(),
                                      [&](const Slot& slot) { return slot.stage == stage; });
    VoidForGood(context, {key.first, key.second, node, is_culprit ? waited.seconds() : 0.0, skipped,
                          plan_->version});
  }
}

void StageActor::ForgetAvoided(const PipelinePlan& before) {
  if (!avoidance_) return;
  avoidance_->ForgetIf([&](const NodeId& node) {
    return IsDead(plan_, node) || SlotOf(plan_, node) != SlotOf(before, node);
  });
}

}  // namespace skerry
