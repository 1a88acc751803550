// Sharded rounds: who holds everybody's sums of which shape (docs/PROTOCOL.md, "A sharded round").

#include <algorithm>
#include <optional>

#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

const Participant* Find(const std::vector<Participant>& sums, const NodeId& node) {
  const auto it = std::find_if(sums.begin(), sums.end(),
                               [&](const Participant& sum) { return sum.node == node; });
  return it == sums.end() ? nullptr : &*it;
}

// By a joiner's word who is the only participant, also of a round that is frozen: before it has its
// stage a joiner holds sums that it cannot look at, and nobody else does. Where several take part
// they look, and the round waits for all of them.
std::optional<NodeId> RefutedBy(const SumsHeld& said, const NodeId& by, const PipelinePlan& plan) {
  const std::vector<NodeId> in = ParticipantsOf(plan, said.stage, said.round);
  if (in.size() != 1 || in.front() == by) return std::nullopt;
  const Participant* sum = Find(said.sums, in.front());
  return sum != nullptr && sum->digest.IsZero() ? std::optional(in.front()) : std::nullopt;
}

// What each participant says that it has made, when all of its cohort have said the same. nullopt:
// not yet, or `differs` has made something else.
std::optional<std::vector<Digest>> MadeBy(const std::vector<NodeId>& participants,
                                          const PipelinePlan& plan,
                                          std::map<NodeId, std::map<NodeId, Participant>>& said,
                                          NodeId* differs) {
  std::vector<Digest> messages;
  for (const NodeId& participant : participants) {
    const auto own = said[participant].find(participant);
    if (own == said[participant].end()) return std::nullopt;
    for (const NodeId& member : CohortOf(plan, participant)) {
      const auto made = said[member].find(participant);
      if (made == said[member].end()) return std::nullopt;
      if (made->second == own->second) continue;
      *differs = member;
      return std::nullopt;
    }
    messages.push_back(own->second.digest);
  }
  return messages;
}

}  // namespace

bool CoordinatorActor::IsShardedStage(int32_t stage) const {
  return skerry::IsShardedStage(options_.config, state_.plan->stages[static_cast<size_t>(stage)]);
}

// Whether a report is of no round under way. Of one that is frozen the commit may have been lost
// with an earlier life.
bool CoordinatorActor::IsLate(Context& context, const NodeId& from, int32_t stage, int64_t round) {
  const int64_t next = state_.RoundsCommitted(stage);
  if (round > next + 2 * RoundClock(options_.config).RoundsAhead()) {
    ++refused_;
    return true;
  }
  NoteStarted(context, from);
  if (round >= next) return false;
  const auto frozen = state_.commits.find({stage, round});
  if (frozen == state_.commits.end()) {  // over before the plan began
    ++refused_;
  } else {
    context.Send(from, frozen->second);
  }
  return true;
}

// A reducer says that what it was sent to sum is no message; or, with cohorts, somebody what it has
// made itself.
void CoordinatorActor::OnVoidPieces(Context& context, const NodeId& from, const DeltaHeld& held) {
  const bool has_cohorts = !state_.plan->stages[static_cast<size_t>(held.stage)].cohorts.empty();
  if (has_cohorts && !held.digest.IsZero()) {
    const std::vector<NodeId> cohort = CohortOf(*state_.plan, from);
    if (std::find(cohort.begin(), cohort.end(), held.sender) == cohort.end())
      return void(++refused_);
    held_[{held.stage, held.round}][from][held.sender] = {held.sender, held.tokens, held.digest};
    return TryCommit(context, held.stage);
  }
  const auto participants = ParticipantsOf(*state_.plan, held.stage, held.round);
  const auto takes_part = [&](const NodeId& node) {
    return std::find(participants.begin(), participants.end(), node) != participants.end();
  };
  if (!held.digest.IsZero() || held.sender == from || !takes_part(from) ||
      !takes_part(held.sender)) {
    return void(++refused_);
  }
  DeclareGone(context, held.sender, Gone::kEvicted,
              "of its delta another replica was sent pieces that cannot be decoded");
}

void CoordinatorActor::On(Context& context, const NodeId& from, const SumsHeld& message) {
  const auto stage = StageOf(from);
  const auto sane = [](const Participant& sum) { return sum.tokens >= 0; };
  if (!stage || message.stage != *stage || message.round < 0 || !IsShardedStage(*stage) ||
      !std::all_of(message.sums.begin(), message.sums.end(), sane)) {
    return void(++refused_);
  }
  if (const auto liar = RefutedBy(message, from, *state_.plan)) {
    return DeclareGone(context, *liar, Gone::kEvicted,
                       "another replica was sent a sum of it that cannot be decoded");
  }
  if (options_.is_signed && message.statement != SumStatement() &&
      !options_.is_signed(from, StatedBytes(from, message), message.signature)) {
    return DeclareGone(context, from, Gone::kEvicted,
                       "what it says of its sums is not signed by its key");
  }
  if (IsLate(context, from, *stage, message.round)) return;
  SumsHeld held = message;
  for (Participant& sum : held.sums) {
    if (sum.tokens > RoundTokensMax(options_.config, *state_.plan)) sum = {sum.node, 0, {}};
    if (sum.node == from && sum.digest.IsZero()) {
      return DeclareGone(context, from, Gone::kEvicted, "its own sum is none that can count");
    }
  }
  sums_held_[{*stage, message.round}][from] = std::move(held);
  TryCommit(context, *stage);
}

// The set of a round, when every holder holds every participant's sum of its present shape, all
// alike. So whoever dies after that takes nothing along that somebody still needs.
std::optional<RoundCommit> CoordinatorActor::CompleteSharded(Context& context, int32_t stage,
                                                             int64_t round) {
  const auto held = sums_held_.find({stage, round});
  if (held == sums_held_.end()) return std::nullopt;
  const PipelinePlan& plan = *state_.plan;
  const RoundShape shape = ShapeOf(plan, stage, round);
  const auto report_of = [&](const NodeId& node) -> const SumsHeld* {
    const auto it = held->second.find(node);
    return it != held->second.end() && it->second.shape == shape.id ? &it->second : nullptr;
  };
  bool held_up = false;
  std::vector<NodeId> holders;  // that have said so
  for (const NodeId& holder : Holders(plan, stage)) {
    const Joiner* joiner = JoinerOf(plan, holder);
    if (report_of(holder) != nullptr) {
      holders.push_back(holder);
    } else if (joiner != nullptr && !joiner->IsFixed()) {
      held_up = true;
    } else {
      return std::nullopt;
    }
  }
  RoundCommit commit{stage, round, {}, shape.id};
  std::vector<NodeId> reducers = shape.participants;
  std::sort(reducers.begin(), reducers.end());
  for (const NodeId& reducer : reducers) {
    const Participant* said = Find(report_of(reducer)->sums, reducer);
    if (said == nullptr) return std::nullopt;
    commit.participants.push_back(*said);
  }
  for (const NodeId& holder : holders) {
    const std::vector<Participant>& sums = report_of(holder)->sums;
    if (sums == commit.participants) continue;
    const Joiner* joiner = JoinerOf(plan, holder);
    if (joiner != nullptr && !joiner->IsFixed() && reducers.size() > 1) {
      GiveUpJoiner(context, holder, "it holds another sum than the others");
      return std::nullopt;
    }
    for (const Participant& said : commit.participants) {
      const Participant* seen = Find(sums, said.node);
      if (seen != nullptr && *seen == said) continue;
      DeclareGone(context, said.node, Gone::kEvicted,
                  "another replica holds another sum of it, or one that cannot be decoded");
      return std::nullopt;
    }
    return std::nullopt;
  }
  // So a message that is frozen is one that the participant's deputy has made too.
  if (!plan.stages[static_cast<size_t>(stage)].cohorts.empty()) {
    NodeId differs;
    const auto made = MadeBy(reducers, plan, held_[{stage, round}], &differs);
    if (!differs.IsZero())
      PartFromCohort(context, differs, stage, "its weights are not those of its speaker");
    if (!made) return std::nullopt;
    commit.messages = *made;
  }
  if (held_up) held_up_since_.try_emplace(stage, context.now());
  if (held_up || commit.participants.empty()) return std::nullopt;
  return commit;
}

// What an earlier process of it held is gone with that.
void CoordinatorActor::ForgetHoldings(const NodeId& node) {
  for (auto& [round, holdings] : held_) holdings.erase(node);
  for (auto& [round, holdings] : sums_held_) holdings.erase(node);
  for (auto& [round, said] : statistics_) said.erase(node);
}

}  // namespace skerry
