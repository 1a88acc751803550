// A node in a cohort: the inner step with the others, and what one of them says for all in rounds
// (docs/decisions/0058-clusters.md).

#include <algorithm>
#include <utility>

#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

// A library's words, for JSON.
std::string Plain(std::string words) {
  for (char& c : words) {
    if (c == '"' || c == '\\' || (c >= 0 && c < ' ')) c = ' ';
  }
  return words;
}

}  // namespace

void NodeActor::JoinCohort(Context& context) {
  if (CohortOf(plan_, options_.self).size() < 2) return;
  Cohort::Options options;
  options.self = options_.self;
  options.stage = stage_;
  options.overlap_steps = config_->cluster.overlap_steps;
  options.steps = config_->steps;
  options.submit = [this](Context& c, Job job) { return SubmitTracked(c, std::move(job)); };
  options.send = [this](Context& c, const NodeId& to, skerry::Message message) {
    Send(c, to, std::move(message));
  };
  options.broken = [this](Context& c, const CohortBroken& broken) {
    Send(c, options_.coordinator, broken);
  };
  options.silent = [this](const NodeId& node) { passing_on_.Lost(node); };
  options.summed = [this](Context& c) { Advance(c); };
  options.failed = [this](Context& c, const absl::Status& status) { FailAtWork(c, status); };
  options.lane = options_.lane;
  options.way = [](Context& c, const std::string& way, const std::string& why) {
    c.Event("cohort_sums", absl::StrFormat(R"("over":"%s","why":"%s")", Plain(way), Plain(why)));
  };
  cohort_ = std::make_shared<Cohort>(std::move(options));
  cohort_->OnPlan(context, plan_);
}

// Jobs that read and write its values run before this one.
void NodeActor::DropCohort(Context& context) {
  if (!cohort_) return;
  cohort_->Leave(context);
  const std::shared_ptr<Cohort> cohort = std::move(cohort_);
  for (const JobQueue queue : {JobQueue::kDevice, JobQueue::kBeside})
    context.Submit({"drop cohort", Duration(), [cohort] {}, queue});
}

// This node's part of the open step is accumulated: true when the device has the optimizer's step.
// Until then it works for others.
bool NodeActor::StepTogether(Context& context) {
  cohort_->Contribute(context, step_, pipeline_->step_microbatches());
  if (heavy_ != Heavy::kNone) return false;
  const Cohort::Sum* sum = cohort_->Take(context);
  if (sum == nullptr) return false;
  heavy_ = Heavy::kOptimizer;
  results_ = std::make_shared<Results>();
  heavy_job_ = SubmitTracked(
      context, {"optimizer", work_->Cost(WorkKind::kOptimizer),
                [work = work_.get(), results = results_, step = step_, sum = *sum] {
                  std::span<const float> values;
                  if (sum.values) values = std::span(*sum.values).first(sum.values->size() - 1);
                  results->status = work->OptimizerStepOn(step, sum.microbatches, values);
                }});
  return true;
}

// To the cohort, or, of a node by itself, to its own devices, which the optimizer's step waits for.
void NodeActor::GivePart(Context& context, const GradientsMade& made) {
  if (cohort_) return cohort_->GivePart(context, made);
  context.Submit({"sum part", work_->Cost(WorkKind::kAccumulate), [work = work_.get(), made] {
                    work->SumPart(made.part, made.step, made.microbatches);
                  }});
}

// The message of a round that all members have made. The speaker sends it to other cohorts; all
// hold it as the speaker's, and say so.
void NodeActor::SpeakForCohort(Context& context, Delta delta) {
  const std::vector<NodeId> members = CohortOf(plan_, options_.self);
  const NodeId speaker = members.front();
  delta.plan_version = plan_->version;
  if (speaker == options_.self && !IsAbsent(plan_, stage_, delta.round, speaker)) {
    for (const NodeId& hearer : HearersOf(plan_, stage_)) {
      if (hearer != options_.self) Send(context, hearer, delta);
    }
  }
  if (const auto held = rounds_->Hold(speaker, delta)) Send(context, options_.coordinator, *held);
  GiveToAskers(context, delta.round, speaker);
}

void NodeActor::PassOnToCohort(Context& context, const NodeId& sender, Delta delta) {
  const std::vector<NodeId> members = CohortOf(plan_, options_.self);
  if (members.front() != options_.self) return;
  delta.sender = sender;
  delta.plan_version = plan_->version;
  for (const NodeId& member : members) {
    if (member != options_.self) Send(context, member, delta);
  }
}

// In a sharded round: what all members have made counts as the speaker's, who sends it.
void NodeActor::SayMade(Context& context, const Delta& made) {
  const NodeId speaker = CohortOf(plan_, options_.self).front();
  Send(context, options_.coordinator,
       DeltaHeld{stage_, made.round, speaker, made.tokens, made.digest});
}

void NodeActor::PassOnSum(Context& context, const NodeId& reducer, DeltaSum sum) {
  const std::vector<NodeId> members = CohortOf(plan_, options_.self);
  if (members.empty() || members.front() != options_.self) return;
  sum.sender = reducer;
  sum.plan_version = plan_->version;
  for (const NodeId& member : members) {
    if (member != options_.self && member != reducer) Send(context, member, sum);
  }
}

// A plan has made another member the speaker, or this node one by itself: what is not frozen is
// said in the new speaker's name, which also passes on what it holds.
void NodeActor::SpeakAnew(Context& context, const PipelinePlan& before) {
  if (!cohort_) return;
  cohort_->OnPlan(context, plan_);
  if (!rounds_) return;
  const std::vector<NodeId> was = CohortOf(before, options_.self);
  const std::vector<NodeId> now = CohortOf(plan_, options_.self);
  if (was.empty() || now.empty()) return;
  const bool parted = now.size() == 1 && std::any_of(was.begin(), was.end(), [&](const auto& node) {
                        return node != options_.self && !IsDead(plan_, node);
                      });
  if (parted) rounds_->ForgetShared();
  if (was.front() == now.front()) return;
  for (const RoundKeeper::Shared& shared : rounds_->SharedNow()) {
    const bool is_of_it =
        std::find(shared.with.begin(), shared.with.end(), now.front()) != shared.with.end();
    if (!is_of_it || rounds_->CommitOf(shared.delta.round) != nullptr) continue;
    if (IsShardedStage()) {
      SayMade(context, shared.delta);
    } else {
      SpeakForCohort(context, shared.delta);
    }
  }
  if (now.front() != options_.self) return;
  for (const auto& [sender, delta] : rounds_->OthersNow()) PassOnToCohort(context, sender, delta);
  if (!IsShardedStage()) return;
  for (int64_t round = rounds_->next(); rounds_->IsAhead(round); ++round) {
    for (const auto& [reducer, sum] : rounds_->SumsNow(round, ShapeOfRound(round).id))
      PassOnSum(context, reducer, sum);
  }
}

// ---- those who do not hear each other ----------------------------------------------------------

// Of rounds under way, what this node lacks of those that it does not hear.
void NodeActor::AskForUnheard(Context& context, bool again) {
  if (!rounds_ || passing_on_.HearsAll()) return;
  const std::vector<NodeId> cohort = CohortOf(plan_, options_.self);
  if (cohort.empty() || cohort.front() != options_.self) return;  // it is passed on to the others
  for (int64_t round = rounds_->next(); round < encoded_; ++round) {
    std::vector<NodeId> lacking =
        IsShardedStage() ? rounds_->LackingSums(round, ShapeOfRound(round))
                         : rounds_->LackingOf(round, ParticipantsOf(plan_, stage_, round), {});
    std::erase_if(lacking, [&](const NodeId& node) { return !passing_on_.IsSilent(node); });
    AskFor(context, round, lacking, again);
  }
}

// For their deltas, or in a sharded round for their sums. Those who are near them come first.
void NodeActor::AskFor(Context& context, int64_t round, const std::vector<NodeId>& senders,
                       bool again) {
  if (!HasCohorts()) return;
  for (const NodeId& sender : senders) {
    if (!again && passing_on_.HasAsked(sender, round)) continue;
    std::vector<NodeId> candidates = CohortOf(plan_, sender);
    for (const NodeId& other : LiveReplicas(plan_, stage_)) {
      if (std::find(candidates.begin(), candidates.end(), other) == candidates.end())
        candidates.push_back(other);
    }
    std::erase(candidates, options_.self);
    const auto whom = passing_on_.AskNext(sender, round, candidates);
    if (!whom) continue;
    RoundLate lacks{stage_, round, 0, {}, {}};
    (IsShardedStage() ? lacks.sums_of : lacks.deltas_of) = {sender};
    Send(context, *whom, std::move(lacks));
  }
}

void NodeActor::On(Context& context, const NodeId& from, const RoundLate& message) {
  if (!rounds_ || message.stage != stage_ || !rounds_->IsAhead(message.round) || !HasCohorts()) {
    return void(++refused_);
  }
  const std::vector<NodeId> holders = Holders(plan_, stage_);
  const auto is_of_it = [&](const NodeId& node) {
    return node != options_.self &&
           std::find(holders.begin(), holders.end(), node) != holders.end();
  };
  if (!is_of_it(from)) return void(++refused_);
  for (const NodeId& sender : IsShardedStage() ? message.sums_of : message.deltas_of) {
    if (!is_of_it(sender) || sender == from || !passing_on_.Wants(from, sender, message.round))
      continue;
    GiveToAskers(context, message.round, sender);
  }
}

// As soon as it is here.
void NodeActor::GiveToAskers(Context& context, int64_t round, const NodeId& sender) {
  if (IsShardedStage()) {
    const DeltaSum* sum = rounds_->SumOf(sender, round, ShapeOfRound(round).id);
    if (sum == nullptr || sum->digest.IsZero()) return;
    for (const NodeId& asker : passing_on_.TakeAskers(sender, round)) {
      DeltaSum given = *sum;
      given.sender = sender;
      given.plan_version = plan_->version;
      Send(context, asker, std::move(given));
    }
    return;
  }
  const Delta* held = rounds_->DeltaOf(sender, round);
  if (held == nullptr) return;
  for (const NodeId& asker : passing_on_.TakeAskers(sender, round)) {
    Delta delta = *held;
    delta.sender = sender;
    delta.plan_version = plan_->version;
    Send(context, asker, std::move(delta));
  }
}

}  // namespace skerry
