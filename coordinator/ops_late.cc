// Rounds that somebody is late for (docs/PROTOCOL.md, 32 to 34): frozen without his delta, as long
// as he hears of them; who does not starts over.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr double kWaitMaxS = 1e6;
// Silences until what does not arrive is taken for what never will: a slow line may take minutes.
constexpr double kCutOff = 30;
// Rounds of a fragment that may go on without the same replica: then it is waited for, or it would
// learn for itself alone, and others who got slower would not get used to it.
constexpr int32_t kAbsencesInARow = 4;

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Who says that it lacks what that one has sent to sum, if that is one alone.
std::optional<NodeId> AloneLacking(const std::map<NodeId, RoundLate>& waiting, const NodeId& node) {
  std::optional<NodeId> alone;
  for (const auto& [who, said] : waiting) {
    if (!Contains(said.deltas_of, node)) continue;
    if (alone) return std::nullopt;
    alone = who;
  }
  return alone;
}

}  // namespace

void CoordinatorActor::On(Context& context, const NodeId& from, const RoundLate& message) {
  const auto stage = StageOf(from);
  if (IsAtPause()) return;  // who is late then is so by order
  if (!stage || message.stage != *stage || !options_.config.outer.absences ||
      !(message.waited_s < kWaitMaxS)) {
    return void(++refused_);
  }
  if (IsLate(context, from, *stage, message.round)) return;
  // Of a later one nothing can be said before this one is frozen.
  if (message.round != state_.RoundsCommitted(*stage)) return;
  const auto participants = ParticipantsOf(*state_.plan, *stage, message.round);
  if (!Contains(participants, from)) return;
  RoundLate late = message;
  const auto nobody = [&](const NodeId& node) {
    return node == from || !Contains(participants, node);
  };
  std::erase_if(late.deltas_of, nobody);
  std::erase_if(late.sums_of, nobody);
  auto& round = late_[*stage];
  if (round.round != message.round || round.plan_version != state_.plan->version) {
    round = {message.round, state_.plan->version, context.now(), {}};
  }
  round.waiting[from] = std::move(late);
  GoOnWithoutLate(context, *stage);
}

void CoordinatorActor::GoOnWithoutLate(Context& context, int32_t stage) {
  auto& late = late_.at(stage);
  const double waited_s = (context.now() - late.since).seconds();
  const double silent_s = options_.config.node_silent_s;
  if (const auto node = LateOf(stage, waited_s >= silent_s / 2)) {
    const auto participants = ParticipantsOf(*state_.plan, stage, late.round);
    // Never two sides that both go on: half of a stage may leave the others out, not less.
    const auto live = SpeakersAmong(*state_.plan, stage, LiveReplicas(*state_.plan, stage));
    const bool is_half = 2 * (participants.size() - 1) >= live.size();
    if (!is_half) return;
    if (MayBeAbsent(*node, stage, late.round)) return LeaveOut(context, *node, stage);
    // Who is slow has not sent it yet.
    const auto beat = beats_.find(*node);
    const int64_t boundary = RoundClock(options_.config).Boundary(late.round);
    const bool has_sent = beat != beats_.end() && beat->second.step >= boundary;
    if (!has_sent) late.since = context.now();
    if (!has_sent) return;
    // Pieces that one alone lacks are of no use to the others: it takes its turn at being absent.
    const auto alone = AloneLacking(late.waiting, *node);
    const bool is_turn = IsShardedStage(stage) && alone && waited_s >= silent_s / 2;
    if (is_turn && MayBeAbsent(*alone, stage, late.round)) return LeaveOut(context, *alone, stage);
    if (waited_s < kCutOff * silent_s) return;
    return DeclareGone(
        context, *node, Gone::kDead,
        absl::StrFormat("what it sent to the others in round %d does not arrive", late.round));
  }
  if (waited_s < kCutOff * silent_s) return;
  if (const auto node = CutOffOf(stage)) {
    DeclareGone(context, *node, Gone::kDead,
                absl::StrFormat("what the others sent it in round %d does not arrive", late.round));
  }
}

// Whose delta is missing; of several that of whom most lack it, if possible somebody who waits for
// nobody himself. After a while also whose sum does not come.
std::optional<NodeId> CoordinatorActor::LateOf(int32_t stage, bool for_long) const {
  const auto& late = late_.at(stage);
  std::map<NodeId, size_t> lacked;
  for (const auto& [waiting, said] : late.waiting) {
    for (const NodeId& node : said.deltas_of) ++lacked[node];
  }
  if (lacked.empty() && for_long) {
    for (const auto& [waiting, said] : late.waiting) {
      for (const NodeId& node : said.sums_of) ++lacked[node];
    }
  }
  std::optional<NodeId> latest;
  std::pair<bool, size_t> most;
  for (const NodeId& node : ParticipantsOf(*state_.plan, stage, late.round)) {
    const auto it = lacked.find(node);
    if (it == lacked.end()) continue;
    const std::pair<bool, size_t> blame = {!late.waiting.contains(node), it->second};
    if (latest && blame < most) continue;  // of equals the last
    latest = node;
    most = blame;
  }
  return latest;
}

// Who has not said that the round is all here although nobody is late with his part of it.
std::optional<NodeId> CoordinatorActor::CutOffOf(int32_t stage) const {
  const int64_t round = late_.at(stage).round;
  const auto participants = ParticipantsOf(*state_.plan, stage, round);
  const auto has_all = [&](const NodeId& holder) {
    if (IsShardedStage(stage)) {
      const auto all = sums_held_.find({stage, round});
      if (all == sums_held_.end()) return false;
      const auto said = all->second.find(holder);
      return said != all->second.end() &&
             said->second.shape == ShapeOf(*state_.plan, stage, round).id;
    }
    const auto all = held_.find({stage, round});
    if (all == held_.end() || !all->second.contains(holder)) return false;
    const auto& said = all->second.at(holder);
    return std::all_of(participants.begin(), participants.end(),
                       [&](const NodeId& node) { return said.contains(node); });
  };
  std::optional<NodeId> cut_off;
  size_t lacking = 0;
  for (const NodeId& node : LiveReplicas(*state_.plan, stage)) {
    if (has_all(node)) continue;
    cut_off = node;
    ++lacking;
  }
  return lacking == 1 ? cut_off : std::nullopt;
}

// The others may also get only as far ahead of it as it keeps their messages for: with this round
// frozen they send as many more as may be under way.
bool CoordinatorActor::MayBeAbsent(const NodeId& node, int32_t stage, int64_t round) const {
  const int64_t fragments = RoundClock(options_.config).fragments();
  if (RoundsCovered(*state_.plan, stage, round, node, fragments) > kAbsencesInARow) return false;
  const RoundClock clock(options_.config);
  const int64_t most = clock.RoundsAhead() - clock.in_flight_max();
  const Joiner* joiner = JoinerOf(*state_.plan, node);
  const int64_t first =
      std::max(state_.plan->start.round, joiner == nullptr ? 0 : joiner->from_round);
  for (int64_t landed = round - most - 1; landed < round; ++landed) {
    if (landed < first) return true;
    const auto applied = state_.applied.find({stage, landed});
    if (applied != state_.applied.end() && applied->second.contains(node)) return true;
  }
  return false;
}

void CoordinatorActor::LeaveOut(Context& context, const NodeId& node, int32_t stage) {
  const int64_t round = late_.at(stage).round;
  PipelinePlan plan = *state_.plan;
  ++plan.version;
  // Who lands a round looks back at the absences in a row before it; nobody is further behind.
  const RoundClock clock(options_.config);
  const int64_t needed = 2 * clock.RoundsAhead() + (kAbsencesInARow + 2) * clock.fragments();
  std::erase_if(plan.absent, [&](const Absence& absence) {
    return absence.round + needed < state_.RoundsCommitted(absence.stage);
  });
  plan.absent.push_back({stage, round, node});
  std::sort(plan.absent.begin(), plan.absent.end());
  const auto& waiting = late_.at(stage).waiting;
  context.Event("absent", EventFields({{"node", node.Short()},
                                       {"stage", stage},
                                       {"round", round},
                                       {"waiting", waiting.size()},
                                       {"waited_s", waiting.begin()->second.waited_s}}));
  Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
  // Places are as before: what was decided about them stands.
  if (migration_ && migration_->plan_version == plan.version - 1) ++migration_->plan_version;
  if (looked_.plan_version == plan.version - 1) ++looked_.plan_version;
  AnnouncePlan(context, absl::StrFormat("round %d of stage %d goes on without %s, which is late",
                                        round, stage, node.Short()));
  TryCommit(context, stage);
}

// Of a round that lost all its participants before it was frozen: who is absent from it makes it.
PipelinePlan CoordinatorActor::CallBackAbsent(PipelinePlan plan) const {
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    const int64_t round = state_.RoundsCommitted(stage);
    if (!ParticipantsOf(plan, stage, round).empty()) continue;
    std::erase_if(plan.absent, [&](const Absence& absence) {
      return absence.stage == stage && absence.round >= round;
    });
  }
  return plan;
}

}  // namespace skerry
