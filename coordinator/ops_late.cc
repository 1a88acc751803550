// Rounds that somebody is late for (docs/PROTOCOL.md, 32 to 34): frozen without his delta, as long
// as he hears of them; who does not, or is late again and again, starts over.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr double kWaitMaxS = 1e6;

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

void CoordinatorActor::On(Context& context, const NodeId& from, const RoundLate& message) {
  const auto stage = StageOf(from);
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
  Late& round = late_[*stage];
  if (round.round != message.round || round.plan_version != state_.plan->version) {
    round = {message.round, state_.plan->version, context.now(), {}};
  }
  round.waiting[from] = std::move(late);
  GoOnWithoutLate(context, *stage);
}

void CoordinatorActor::GoOnWithoutLate(Context& context, int32_t stage) {
  const Late& late = late_.at(stage);
  const Duration waited = context.now() - late.since;
  const bool for_long = waited >= Duration::Seconds(options_.config.node_silent_s) / 2;
  if (const auto node = LateOf(stage, for_long)) {
    const auto participants = ParticipantsOf(*state_.plan, stage, late.round);
    // Never two sides that both go on: half of a stage may leave the others out, not less.
    if (2 * (participants.size() - 1) < LiveReplicas(*state_.plan, stage).size()) return;
    if (MayBeAbsent(*node, stage, late.round)) return LeaveOut(context, *node, stage);
    return DeclareGone(context, *node, Gone::kDead,
                       absl::StrFormat("late for round %d, as for those before it", late.round));
  }
  if (!for_long) return;
  if (const auto node = CutOffOf(stage)) {
    DeclareGone(context, *node, Gone::kDead,
                absl::StrFormat("what the others sent it in round %d does not arrive", late.round));
  }
}

// Whose delta is missing; of several that of whom most lack it, if possible somebody who waits for
// nobody himself. After a while also whose sum does not come.
std::optional<NodeId> CoordinatorActor::LateOf(int32_t stage, bool for_long) const {
  const Late& late = late_.at(stage);
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

// The others may get as far ahead of it as it keeps their messages for.
bool CoordinatorActor::MayBeAbsent(const NodeId& node, int32_t stage, int64_t round) const {
  const int64_t most = RoundClock(options_.config).RoundsAhead() - 1;
  const Joiner* joiner = JoinerOf(*state_.plan, node);
  const int64_t first = joiner == nullptr ? 0 : joiner->from_round;
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
  // Nobody is further behind than MayBeAbsent lets him, or looks further back than as many rounds.
  const RoundClock clock(options_.config);
  const int64_t needed = 2 * (clock.RoundsAhead() + clock.fragments()) + 1;
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
  AnnouncePlan(context, absl::StrFormat("round %d of stage %d goes on without %s, which is late",
                                        round, stage, node.Short()));
  TryCommit(context, stage);
}

}  // namespace skerry
