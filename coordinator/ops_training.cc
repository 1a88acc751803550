// What nodes report of their training: losses, deltas held, rounds applied.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/wild_deltas.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr double kWaitMaxS = 1e6;
constexpr Duration kDetourEventEvery = Duration::Seconds(5);

// By the word of a participant, at once: it may be dead before the round is complete. By a joiner's
// where nobody else looks at what the only participant sends, also of a round that is frozen:
// before it has its stage a joiner holds messages that it cannot look at.
bool IsRefuted(const DeltaHeld& said, const NodeId& by, const PipelinePlan& plan) {
  const std::vector<NodeId> in = ParticipantsOf(plan, said.stage, said.round);
  const auto takes_part = [&](const NodeId& node) {
    return std::find(in.begin(), in.end(), node) != in.end();
  };
  return said.digest.IsZero() && said.sender != by && takes_part(said.sender) &&
         (takes_part(by) || in.size() == 1);
}

bool IsOfOneCohort(const PipelinePlan& plan, const NodeId& a, const NodeId& b) {
  const std::vector<NodeId> cohort = CohortOf(plan, a);
  return std::find(cohort.begin(), cohort.end(), b) != cohort.end();
}

}  // namespace

void CoordinatorActor::On(Context& context, const NodeId& from, const StepReport& message) {
  const int32_t microbatches = options_.config.pipeline.microbatches_per_step;
  if (StageOf(from) != 0 || message.step < 0 || message.step >= options_.config.steps) {
    return void(++refused_);
  }
  StepReport fresh{message.step, {}};
  const auto known = state_.losses.find(message.step);
  const auto lost = state_.written_off.find(message.step);
  for (const MicrobatchLoss& loss : message.losses) {
    if (!IsSane(loss, microbatches)) return void(++refused_);
    if (lost != state_.written_off.end() && lost->second.contains(loss.microbatch)) continue;
    if (known == state_.losses.end() || !known->second.by_microbatch.contains(loss.microbatch)) {
      fresh.losses.push_back(loss);
    }
  }
  NoteStarted(context, from);
  if (fresh.losses.empty()) return;
  Record(context, LossesRecord(from, fresh));
  const auto& step = state_.losses.at(message.step).by_microbatch;
  if (static_cast<int32_t>(step.size()) == microbatches) EmitStep(context, message.step);
}

// In float64, in microbatch order: the same bits whatever the order of reports.
double CoordinatorActor::MeanLoss(int64_t step) const {
  double sum = 0;
  int64_t tokens = 0;
  for (const auto& [microbatch, loss] : state_.losses.at(step).by_microbatch) {
    sum += static_cast<double>(loss.loss) * loss.tokens;
    tokens += loss.tokens;
  }
  return tokens > 0 ? sum / static_cast<double>(tokens) : 0;
}

void CoordinatorActor::EmitStep(Context& context, int64_t step) {
  if (!emitted_steps_.insert(step).second) return;
  const double mean = MeanLoss(step);
  int64_t tokens = 0;
  const auto& losses = state_.losses.at(step).by_microbatch;
  for (const auto& [microbatch, loss] : losses) tokens += loss.tokens;
  if (step > last_step_) {
    last_step_ = step;
    last_loss_ = mean;
  }
  context.Event(
      "step",
      EventFields(
          {{"step", step}, {"loss", mean}, {"tokens", tokens}, {"microbatches", losses.size()}}));
}

// A step that lost microbatches with a dead node is over when every live stage-0 node is past it:
// a node's report comes before the heartbeat that says so.
void CoordinatorActor::EmitPassedSteps(Context& context) {
  if (!state_.plan) return;
  // Where nobody is left the run goes back to a checkpoint, with all of its stages.
  const std::vector<NodeId> live = LiveReplicas(*state_.plan, 0);
  if (live.empty()) return;
  int64_t passed = options_.config.steps;
  for (const NodeId& node : live) {
    const auto beat = beats_.find(node);
    passed = std::min(passed, beat == beats_.end() ? 0 : beat->second.step);
  }
  for (auto it = state_.losses.lower_bound(emitted_below_);
       it != state_.losses.end() && it->first < passed; ++it) {
    EmitStep(context, it->first);
  }
  // What nobody was credited with by now nobody will be: the ledger closes the step.
  const int32_t microbatches = options_.config.pipeline.microbatches_per_step;
  for (int64_t step = emitted_below_; step < passed; ++step) {
    const auto losses = state_.losses.find(step);
    if (losses != state_.losses.end() &&
        static_cast<int32_t>(losses->second.by_microbatch.size()) == microbatches) {
      continue;
    }
    std::set<int32_t> lost;
    for (int32_t m = 0; m < microbatches; ++m) {
      if (losses == state_.losses.end() || !losses->second.by_microbatch.contains(m)) {
        lost.insert(m);
      }
    }
    if (!lost.empty() && !state_.written_off.contains(step))
      Record(context, WrittenOffRecord(step, lost));
  }
  emitted_below_ = std::max(emitted_below_, passed);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const DeltaHeld& message) {
  const auto stage = StageOf(from);
  if (!stage || message.stage != *stage || StageOf(message.sender) != stage || message.round < 0 ||
      message.tokens < 0) {
    return void(++refused_);
  }
  if (!IsShardedStage(*stage) && IsRefuted(message, from, *state_.plan)) {
    return DeclareGone(context, message.sender, Gone::kEvicted,
                       "another replica was sent a delta of it that cannot be decoded");
  }
  if (IsLate(context, from, *stage, message.round)) return;
  if (IsShardedStage(*stage)) return OnVoidPieces(context, from, message);
  Participant held{message.sender, message.tokens, message.digest};
  if (held.tokens > RoundTokensMax(options_.config, *state_.plan)) held = {message.sender, 0, {}};
  if (held.digest.IsZero() && message.sender == from) {
    return DeclareGone(context, from, Gone::kEvicted, "its own delta is none that can count");
  }
  held_[{*stage, message.round}][from][message.sender] = held;
  TryCommit(context, *stage);
}

// The set of a round, when every holder holds every participant's message, all alike.
std::optional<RoundCommit> CoordinatorActor::Complete(Context& context, int32_t stage,
                                                      int64_t round) {
  if (IsShardedStage(stage)) return CompleteSharded(context, stage, round);
  const auto held = held_.find({stage, round});
  if (held == held_.end()) return std::nullopt;
  const PipelinePlan& plan = *state_.plan;
  std::vector<NodeId> senders = ParticipantsOf(plan, stage, round);
  std::sort(senders.begin(), senders.end());
  RoundCommit commit{stage, round, {}};
  bool held_up = false;
  for (const NodeId& sender : senders) {
    const auto own = held->second[sender].find(sender);
    if (own == held->second[sender].end()) return std::nullopt;
    for (const NodeId& holder : Holders(plan, stage)) {
      const Joiner* joiner = JoinerOf(plan, holder);
      const bool joins = joiner != nullptr && !joiner->IsFixed();
      const auto& holdings = held->second[holder];
      const auto it = holdings.find(sender);
      if (it == holdings.end()) {
        if (!joins) return std::nullopt;
        held_up = true;
      } else if (it->second != own->second && joins && senders.size() > 1) {
        GiveUpJoiner(context, holder, "it holds another delta than the others");
        return std::nullopt;
      } else if (it->second != own->second && IsOfOneCohort(plan, sender, holder)) {
        PartFromCohort(context, holder, stage, "its weights are not those of its speaker");
        return std::nullopt;
      } else if (it->second != own->second) {
        DeclareGone(context, sender, Gone::kEvicted,
                    "another replica holds another delta of it, or one that cannot be decoded");
        return std::nullopt;
      }
    }
    commit.participants.push_back(own->second);
  }
  if (held_up) held_up_since_.try_emplace(stage, context.now());
  if (held_up || commit.participants.empty()) return std::nullopt;
  return commit;
}

// By the plan of this moment. In a later one a participant may have died and join anew, as one that
// was never absent.
void CoordinatorActor::AddCovered(RoundCommit* commit) const {
  const int64_t fragments = RoundClock(options_.config).fragments();
  bool is_one_each = true;
  for (const Participant& participant : commit->participants) {
    commit->covered.push_back(
        RoundsCovered(*state_.plan, commit->stage, commit->round, participant.node, fragments));
    is_one_each = is_one_each && commit->covered.back() == 1;
  }
  if (is_one_each) commit->covered.clear();
}

// With the replicas that are not in it, and why, where there are any.
void CoordinatorActor::EmitRound(Context& context, const RoundCommit& commit) const {
  constexpr size_t kNamedMax = 8;
  std::set<NodeId> in;
  nlohmann::json names = nlohmann::json::array(), missing = nlohmann::json::array();
  for (const Participant& p : commit.participants) {
    in.insert(p.node);
    names.push_back(p.node.Short());
  }
  size_t count = 0;
  const auto stage = static_cast<size_t>(commit.stage);
  for (const NodeId& node : state_.plan->stages[stage].replicas) {
    const std::vector<NodeId> cohort = CohortOf(*state_.plan, node);
    const auto speaks = [&](const NodeId& member) { return in.contains(member); };
    if (in.contains(node) || std::any_of(cohort.begin(), cohort.end(), speaks)) continue;
    if (++count > kNamedMax) continue;
    const bool is_late = std::binary_search(state_.plan->absent.begin(), state_.plan->absent.end(),
                                            Absence{commit.stage, commit.round, node});
    missing.push_back({node.Short(), state_.admission.banned.contains(node) ? "put out"
                                     : is_late                              ? "late"
                                     : !state_.nodes.at(node).alive         ? "gone"
                                                                            : "not in it yet"});
  }
  nlohmann::json fields = {
      {"stage", commit.stage}, {"round", commit.round}, {"participants", names}};
  if (count > 0) fields["missing"] = missing;
  if (count > kNamedMax) fields["missing_count"] = count;
  context.Event("round", EventFields(fields));
}

void CoordinatorActor::TryCommit(Context& context, int32_t stage) {
  const int64_t round = state_.RoundsCommitted(stage);
  // A joiner holds its stage up while nothing else does: a death in between makes all begin again.
  const auto held_up = held_up_since_.extract(stage);
  std::optional<RoundCommit> commit = Complete(context, stage, round);
  if (!held_up.empty() && held_up_since_.contains(stage)) {
    held_up_since_.at(stage) = held_up.mapped();
  }
  if (!commit) return;
  const std::optional<RoundTable> table = AddTable(&*commit);
  AddCovered(&*commit);
  Record(context, CommitRecord(*commit));
  if (commit->shape != 0) DrawSumChecks(context, *commit);
  held_.erase({stage, round});
  sums_held_.erase({stage, round});
  held_up_since_.erase(stage);
  EmitRound(context, *commit);
  if (table) EmitTable(context, *commit, *table);
  for (const NodeId& replica : Holders(*state_.plan, stage)) context.Send(replica, *commit);
  TryCommit(context, stage);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const RoundApplied& said) {
  const auto stage = StageOf(from);
  const bool is_known = stage && state_.commits.contains({*stage, said.round});
  if (!stage || said.stage != *stage || !IsSane(said) || !is_known) {
    return void(++refused_);
  }
  const RoundApplied message =
      CleanApplied(said, state_.commits.at({said.stage, said.round}), options_.config.outer.robust);
  if (JoinerOf(*state_.plan, from) != nullptr) CheckJoinersBase(context, from, message);
  const RunState::StageRound key{message.stage, message.round};
  const auto known = state_.applied.find(key);
  if (known != state_.applied.end() && known->second.contains(from)) return;
  for (const NodeId& screened : state_.NewlyScreened(message)) {
    context.Event("screened", EventFields({{"stage", message.stage},
                                           {"round", message.round},
                                           {"node", screened.Short()},
                                           {"by", from.Short()}}));
  }
  Record(context, AppliedRecord(from, message));
  context.Event("applied", EventFields({{"stage", message.stage},
                                        {"round", message.round},
                                        {"node", from.Short()},
                                        {"digest", message.base_digest.Short()},
                                        {"transfer_s", message.transfer_s},
                                        {"wait_s", message.wait_s},
                                        {"bytes_sent", message.bytes_sent},
                                        {"bytes_received", message.bytes_received}}));
  EvictMinority(context, message.stage, message.round);
  if (stopping_) return;
  if (const auto wild = FindWildSender(state_, message)) {
    DeclareGone(context, wild->node, Gone::kEvicted, wild->why);
  }
  if (stopping_ || !migration_) return;
  // Right after a round of a stage that somebody is to leave.
  const PipelinePlan& plan = *state_.plan;
  const bool ends_a_round =
      std::any_of(migration_->moves.begin(), migration_->moves.end(), [&](const Move& move) {
        const bool replaces = !IsDead(plan, NodeOf(plan, move.to));
        return move.from_stage == *stage || (replaces && move.to.stage == *stage);
      });
  if (ends_a_round) MigrateIfReady(context);
}

// What it said of a round in an earlier life counts for nothing: what it was given does.
void CoordinatorActor::CheckJoinersBase(Context& context, const NodeId& joiner,
                                        const RoundApplied& applied) {
  if (JoinerOf(*state_.plan, joiner)->IsFixed()) return;
  const auto agreed = state_.AgreedDigest(applied.stage, applied.round);
  if (agreed && *agreed != applied.base_digest) {
    GiveUpJoiner(context, joiner, "what it was given is not the state of its stage");
  }
}

// Replicas that took the same outer step must hold the same bits. Whoever differs from most is put
// out, once all have reported, so that the first to report has no advantage but in a tie. A tie is
// left open for a replica that the round did not wait for: it takes the same step.
void CoordinatorActor::EvictMinority(Context& context, int32_t stage, int64_t round) {
  const auto reports = state_.applied.find({stage, round});
  if (reports == state_.applied.end()) return;
  const std::vector<NodeId> live = ParticipantsOf(*state_.plan, stage, round);
  const bool complete = std::all_of(
      live.begin(), live.end(), [&](const NodeId& node) { return reports->second.contains(node); });
  if (!complete) return;
  const Digest agreed = *state_.AgreedDigest(stage, round);
  const auto for_it = [&](const Digest& digest) {
    return std::count_if(reports->second.begin(), reports->second.end(),
                         [&](const auto& report) { return report.second.base_digest == digest; });
  };
  const bool is_tie =
      std::any_of(reports->second.begin(), reports->second.end(), [&](const auto& report) {
        const Digest& digest = report.second.base_digest;
        return digest != agreed && for_it(digest) == for_it(agreed);
      });
  const std::vector<NodeId> replicas = LiveReplicas(*state_.plan, stage);
  const bool somebody_will_say =
      std::any_of(replicas.begin(), replicas.end(), [&](const NodeId& n) {
        return IsAbsent(*state_.plan, stage, round, n) && !reports->second.contains(n);
      });
  if (is_tie && somebody_will_say) return;
  for (const NodeId& node : replicas) {
    const auto report = reports->second.find(node);
    if (report == reports->second.end() || report->second.base_digest == agreed ||
        !TakesPart(node)) {
      continue;
    }
    context.Event("digest_mismatch",
                  EventFields({{"stage", stage}, {"round", round}, {"node", node.Short()}}));
    DeclareGone(context, node, Gone::kEvicted, "its base parameters differ from its stage's");
    if (stopping_) return;
  }
}

// From before the run went back to a checkpoint: what was ended then is made again.
bool CoordinatorActor::IsOfVoidedPast(int64_t plan_version) const {
  return state_.plan && plan_version < state_.plan->start.since;
}

// Passed on to whom the microbatch was led around: the link between the two may be why.
void CoordinatorActor::On(Context& context, const NodeId& from, const Detour& message) {
  const auto stage = StageOf(message.around);
  if (IsOfVoidedPast(message.plan_version) || StageOf(from) != 0 || !stage || *stage == 0 ||
      message.step < 0 || message.step >= options_.config.steps || message.microbatch < 0 ||
      message.microbatch >= state_.plan->microbatches_per_step ||
      !(message.waited_s >= 0 && message.waited_s < kWaitMaxS)) {
    return void(++refused_);
  }
  const auto home = HomeOf(*state_.plan, message.step, message.microbatch);
  if (!home || NodeOf(*state_.plan, *home) != from) return void(++refused_);
  context.Send(
      message.around,
      VoidList{message.around, {{message.step, message.microbatch}}, state_.plan->version});
  if (message.waited_s == 0) return;
  Instant& told = told_of_detour_[{from, message.around}];
  if (told != Instant() && context.now() - told < kDetourEventEvery) return;
  told = context.now();
  context.Event("detour", EventFields({{"node", message.around.Short()},
                                       {"from", from.Short()},
                                       {"step", message.step},
                                       {"microbatch", message.microbatch},
                                       {"waited_s", message.waited_s},
                                       {"skipped", message.skipped}}));
}

// Only what the sender may end: its plan may be older than this one.
void CoordinatorActor::On(Context& context, const NodeId& from, const VoidList& message) {
  const auto stage = StageOf(message.to);
  if (IsOfVoidedPast(message.plan_version) || StageOf(from) != 0 || !stage || *stage == 0)
    return void(++refused_);
  VoidList own{message.to, {}, state_.plan->version};
  for (const VoidList::Microbatch& key : message.microbatches) {
    if (key.step < 0 || key.step >= options_.config.steps || key.microbatch < 0 ||
        key.microbatch >= state_.plan->microbatches_per_step) {
      return void(++refused_);
    }
    const auto home = HomeOf(*state_.plan, key.step, key.microbatch);
    if (home && NodeOf(*state_.plan, *home) == from) own.microbatches.push_back(key);
  }
  if (!own.microbatches.empty()) context.Send(message.to, std::move(own));
}

}  // namespace skerry
