// Sums of sharded rounds are checked by replicas drawn by lot (docs/PROTOCOL.md, "A sum is
// checked"). Who accuses and who is accused are both held to what the coordinator finds when it
// follows the sum itself.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/round_clock.h"
#include "common/status.h"
#include "coordinator/border.h"
#include "coordinator/record_json.h"
#include "coordinator/sum_checking.h"
#include "coordinator/sum_following.h"
#include "localsgd/sum_proof.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr double kPatience = 30;  // node_silent_s: a slow line may take minutes

const Participant* Find(const std::vector<Participant>& of, const NodeId& node) {
  const auto it =
      std::find_if(of.begin(), of.end(), [&](const Participant& p) { return p.node == node; });
  return it == of.end() ? nullptr : &*it;
}

// What the participants say that they sent this reducer.
std::vector<Participant> SentTo(const NodeId& reducer, const std::vector<Participant>& commit,
                                const std::map<NodeId, SumsHeld>& held) {
  std::vector<Participant> sent;
  for (const Participant& p : commit) {
    const auto said = held.find(p.node);
    if (said == held.end()) continue;
    const Participant* part = Find(said->second.statement.sent, reducer);
    if (part != nullptr) sent.push_back({p.node, part->tokens, part->digest});
  }
  return sent;
}

}  // namespace

// ---- drawing -----------------------------------------------------------------------------------

// Of the round that is being frozen. Before its commit leaves, so that the reducer still has what
// it summed when it hears of it.
void CoordinatorActor::DrawSumChecks(Context& context, const RoundCommit& commit) {
  if (options_.config.outer.sum_checks <= 0 || commit.participants.size() < 2) return;
  if (!sum_checking_) sum_checking_ = std::make_shared<SumChecking>();
  const auto& held = sums_held_.at({commit.stage, commit.round});
  sum_checking_->CompareStates(*this, context, commit);
  const PipelinePlan& plan = *state_.plan;
  const RoundShape shape = ShapeOf(plan, commit.stage, commit.round);
  const StageAssignment& stage = plan.stages[static_cast<size_t>(commit.stage)];
  const RoundPart part(options_.config, options_.trained_model.value_or(options_.config.model),
                       stage, commit.stage == 0, commit.round);
  const std::vector<NodeId> reducers = ReducersOf(stage, shape, part.cut.count());
  const bool are_silent = std::all_of(
      commit.participants.begin(), commit.participants.end(),
      [&](const Participant& p) { return held.at(p.node).statement == SumStatement(); });
  if (are_silent) return;
  const auto statements = std::make_shared<const std::map<NodeId, SumsHeld>>(held);
  for (const Participant& p : commit.participants) {
    const SumStatement& said = held.at(p.node).statement;
    SumCheck check{commit.stage,
                   commit.round,
                   commit.shape,
                   p.node,
                   {},
                   {},
                   p.digest,
                   SentTo(p.node, commit.participants, held),
                   commit.covered,
                   said.states};
    for (size_t i = 0; i < reducers.size(); ++i) {
      if (reducers[i] == p.node) check.drawn.push_back(static_cast<int32_t>(i));
    }
    const std::vector<int32_t> own = check.drawn;
    if (own.empty()) continue;
    const bool is_drawn = SumChecking::Draw(*this, context, commit, &check);
    sum_checking_->FindSilent(commit, held, p.node);
    if (said.summed != check.summed) {
      sum_checking_->NoteDispute(*this, context, check, said.summed);
    } else if (is_drawn && check.summed.size() == commit.participants.size()) {
      sum_checking_->DoubtForgotten(context, p.node);
      context.Send(check.reducer, check);
      context.Send(check.checker, check);
      sum_checking_->open[{commit.stage, commit.round, p.node}] = {check, own, statements,
                                                                   context.now()};
    }
  }
}

// Nobody escapes by saying nothing: who sums a part names what it summed of everybody, and
// everybody names what he sent it.
void CoordinatorActor::SumChecking::FindSilent(const RoundCommit& commit,
                                               const std::map<NodeId, SumsHeld>& held,
                                               const NodeId& reducer) {
  const auto condemn = [&](const NodeId& node) {
    condemned[node] = "it does not say what it sent to sum, or what it summed";
  };
  for (const Participant& p : commit.participants) {
    if (Find(held.at(p.node).statement.sent, reducer) == nullptr) condemn(p.node);
    if (Find(held.at(reducer).statement.summed, p.node) == nullptr) condemn(reducer);
  }
}

// Leaves so many of its pieces as the run wants, and draws who checks them.
bool CoordinatorActor::SumChecking::Draw(CoordinatorActor& actor, Context& context,
                                         const RoundCommit& commit, SumCheck* check) {
  const double wanted = double{actor.options_.config.outer.sum_checks};
  auto count = static_cast<size_t>(wanted);
  if (context.rng().Uniform() < wanted - static_cast<double>(count)) ++count;
  if (count == 0) return false;
  std::vector<int32_t>& pieces = check->drawn;
  while (pieces.size() > count) {
    pieces.erase(pieces.begin() + static_cast<int64_t>(context.rng().Below(pieces.size())));
  }
  size_t other = context.rng().Below(commit.participants.size() - 1);
  for (const Participant& p : commit.participants) {
    if (p.node != check->reducer && other-- == 0) check->checker = p.node;
  }
  return true;
}

// One of two does not say the truth about what was sent, and nobody can tell which: but who
// contradicts most of the others is it.
void CoordinatorActor::SumChecking::NoteDispute(CoordinatorActor& actor, Context& context,
                                                const SumCheck& check,
                                                const std::vector<Participant>& summed) {
  const auto participants = ParticipantsOf(*actor.state_.plan, check.stage, check.round);
  for (const NodeId& other : participants) {
    const Participant* sent = Find(check.summed, other);
    const Participant* got = Find(summed, other);
    if (sent == nullptr || got == nullptr || *sent == *got) continue;
    if (other != check.reducer) {
      disputes[{check.stage, other}].insert(check.reducer);
      disputes[{check.stage, check.reducer}].insert(other);
    }
    context.Event("sum_disputed", EventFields({{"stage", check.stage},
                                               {"round", check.round},
                                               {"node", check.reducer.Short()},
                                               {"with", other.Short()}}));
  }
  for (const NodeId& node : participants) {
    const auto& with = disputes[{check.stage, node}];
    const auto present = std::count_if(participants.begin(), participants.end(),
                                       [&](const NodeId& n) { return with.contains(n); });
    if (2 * present <= static_cast<int64_t>(participants.size()) - 1 || present < 2) continue;
    condemned[node] = "most of its stage contradict it about what was sent to sum";
  }
}

// What a reducer has left over goes on from round to round as it said, unless somebody else handed
// it more.
void CoordinatorActor::SumChecking::CompareStates(CoordinatorActor& actor, Context& context,
                                                  const RoundCommit& commit) {
  const auto& held = actor.sums_held_.at({commit.stage, commit.round});
  const RoundClock clock(actor.options_.config);
  Said now{commit.round, actor.state_.plan->version, {}};
  auto& before = said[{commit.stage, clock.FragmentOf(commit.round)}];
  for (const Participant& p : commit.participants) {
    const auto& states = now.states[p.node] = held.at(p.node).statement.states;
    const auto known = before.states.find(p.node);
    // A plan in between may have given a piece away and back.
    const bool follows =
        before.round == commit.round - clock.fragments() && before.plan_version == now.plan_version;
    if (!follows || known == before.states.end()) continue;
    bool is_broken = false;
    for (const PieceState& state : states) {
      const auto was = std::find_if(known->second.begin(), known->second.end(),
                                    [&](const PieceState& s) { return s.piece == state.piece; });
      if (was == known->second.end() || was->after == state.before) continue;
      int& excuses = handed_on[{commit.stage, p.node, state.piece}];
      is_broken = is_broken || excuses == 0;
      excuses = std::max(0, excuses - 1);
    }
    if (!is_broken) continue;
    context.Event(
        "sum_state_differs",
        EventFields({{"stage", commit.stage}, {"round", commit.round}, {"node", p.node.Short()}}));
    auto& rounds = breaks[p.node];
    rounds.push_back(commit.round);
    while (rounds.front() + kBreaksWithin * clock.fragments() < commit.round) {
      rounds.pop_front();
    }
    if (rounds.size() > kBreaksMax) {
      condemned[p.node] =
          "what it has left over of its sums does not follow from what it said before";
    }
  }
  before = std::move(now);
}

void CoordinatorActor::On(Context&, const NodeId& from, const LeftOverSent& message) {
  const auto stage = StageOf(from);
  if (message.to == from || !sum_checking_ || (stage && StageOf(message.to) != message.stage)) {
    return void(++refused_);
  }
  for (const int32_t piece : message.pieces) {
    ++sum_checking_->handed_on[{message.stage, message.to, piece}];
  }
}

// ---- judging -----------------------------------------------------------------------------------

void CoordinatorActor::On(Context& context, const NodeId& from, const SumChecked& message) {
  if (!sum_checking_) return void(++refused_);
  const auto it = sum_checking_->open.find({message.stage, message.round, message.reducer});
  if (it == sum_checking_->open.end() || it->second.check.checker != from ||
      it->second.accusation) {
    return void(++refused_);
  }
  if (message.verdict == SumVerdict::kTrue) {
    ++sum_checking_->checked;
    sum_checking_->not_shown.erase(message.reducer);
    sum_checking_->open.erase(it);
    return;
  }
  SumChecking::Accuse(context, it->second, message.verdict);
}

void CoordinatorActor::SumChecking::DoubtForgotten(Context& context, const NodeId& reducer) {
  for (auto& [key, doubted] : open) {
    if (std::get<NodeId>(key) != reducer) continue;
    if (++doubted.later != kSumsShownMax || doubted.accusation) continue;
    Accuse(context, doubted, SumVerdict::kNotShown);
  }
}

void CoordinatorActor::SumChecking::Accuse(Context& context, Open& doubted, SumVerdict verdict) {
  context.Event("sum_accused", EventFields({{"stage", doubted.check.stage},
                                            {"round", doubted.check.round},
                                            {"node", doubted.check.reducer.Short()},
                                            {"by", doubted.check.checker.Short()},
                                            {"false", verdict == SumVerdict::kFalse}}));
  doubted.accusation = verdict;
  doubted.since = context.now();
  SumCheck to_me = doubted.check;
  to_me.checker = context.self();
  context.Send(doubted.check.reducer, to_me);
}

void CoordinatorActor::On(Context& context, const NodeId& from, const SumShown& message) {
  if (!sum_checking_) return void(++refused_);
  const SumChecking::Key key{message.stage, message.round, from};
  const auto it = sum_checking_->open.find(key);
  const auto is_judged = [&](const auto& job) { return job.second.key == key; };
  if (it == sum_checking_->open.end() || !it->second.accusation ||
      std::any_of(sum_checking_->judging.begin(), sum_checking_->judging.end(), is_judged)) {
    return void(++refused_);
  }
  auto verdict = std::make_shared<SumVerdict>(SumVerdict::kNotShown);
  const SumChecking::Open& doubted = it->second;
  const auto follower =
      FollowerOf(options_.config, options_.trained_model.value_or(options_.config.model), state_,
                 doubted.check, doubted.own);
  const JobId job =
      context.Submit({"follow a sum", Duration::Millis(10),
                      [verdict, follower, check = doubted.check, payload = message.payload,
                       follow = options_.follow_sum, keep = options_.keep_shown] {
                        if (follow) {
                          *verdict = follow(check, payload);
                        } else if (follower) {
                          *verdict = follower->Follow(payload);
                        }
                        if (keep && *verdict == SumVerdict::kFalse) keep(check, payload);
                      }});
  sum_checking_->judging[job] = {key, std::move(verdict)};
}

bool CoordinatorActor::OnSumJob(Context& context, JobId id) {
  if (!sum_checking_) return false;
  const auto job = sum_checking_->judging.extract(id);
  if (job.empty()) return false;
  const auto open = sum_checking_->open.extract(job.mapped().key);
  if (!open.empty()) {
    const auto checking = sum_checking_;  // outlives a run that goes back
    checking->Judge(*this, context, open.mapped(), *job.mapped().verdict);
  }
  return true;
}

// What the coordinator found itself, of a sum that somebody doubts.
void CoordinatorActor::SumChecking::Judge(CoordinatorActor& actor, Context& context,
                                          const Open& doubted, SumVerdict found) {
  const SumCheck& check = doubted.check;
  ++checked;
  if (found == SumVerdict::kTrue) {
    not_shown.erase(check.reducer);
    context.Event("sum_upheld", EventFields({{"stage", check.stage},
                                             {"round", check.round},
                                             {"node", check.reducer.Short()},
                                             {"by", check.checker.Short()}}));
    if (*doubted.accusation != SumVerdict::kFalse || !actor.TakesPart(check.checker)) return;
    actor.Record(context, ProofRecord(doubted.ProofOf(check.checker, "false accusation")));
    return actor.DeclareGone(
        context, check.checker, CoordinatorActor::Gone::kEvicted,
        absl::StrFormat("it said of the sum of %s in round %d of stage %d that it "
                        "is false, which it is not",
                        check.reducer.Short(), check.round, check.stage));
  }
  const bool is_false = found == SumVerdict::kFalse;
  context.Event(is_false ? "false_sum" : "sum_not_shown",
                EventFields({{"stage", check.stage},
                             {"round", check.round},
                             {"node", check.reducer.Short()},
                             {"pieces", check.drawn}}));
  if (!actor.TakesPart(check.reducer)) return;
  if (is_false) {
    actor.Record(context, ProofRecord(doubted.ProofOf(check.reducer, "false sum")));
    return actor.DeclareGone(
        context, check.reducer, CoordinatorActor::Gone::kEvicted,
        absl::StrFormat("its sum in round %d of stage %d is not that of what it "
                        "said that it summed",
                        check.round, check.stage));
  }
  if (++not_shown[check.reducer] <= kNotShownMax) return;
  actor.DeclareGone(context, check.reducer, CoordinatorActor::Gone::kEvicted,
                    "it does not show how it came to its sums");
}

void CoordinatorActor::TendSumChecks(Context& context) {
  if (!sum_checking_ || state_.finished) return;
  const Duration patience = Duration::Seconds(kPatience * options_.config.node_silent_s);
  std::vector<SumChecking::Key> late;
  for (auto it = sum_checking_->open.begin(); it != sum_checking_->open.end();) {
    const bool is_over = StageOf(it->second.check.reducer) != it->second.check.stage;
    if (!is_over && context.now() - it->second.since > patience) late.push_back(it->first);
    it = is_over ? sum_checking_->open.erase(it) : std::next(it);
  }
  const auto checking = sum_checking_;  // outlives a run that goes back
  for (const SumChecking::Key& key : late) {
    SumChecking::Open& open = checking->open.at(key);
    if (!open.accusation) {
      SumChecking::Accuse(context, open, SumVerdict::kNotShown);
      continue;
    }
    const auto doubted = checking->open.extract(key);
    checking->Judge(*this, context, doubted.mapped(), SumVerdict::kNotShown);
    if (stopping_) return;
  }
  for (const auto& [node, why] : std::exchange(checking->condemned, {})) {
    if (TakesPart(node)) DeclareGone(context, node, Gone::kEvicted, why);
    if (stopping_) return;
  }
}

}  // namespace skerry
