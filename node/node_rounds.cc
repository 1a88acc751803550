// A node's share of outer rounds: encode at the boundary, hold, apply when due.

#include <algorithm>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "localsgd/table_choice.h"
#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"

namespace skerry {

// Of the round that a delta or a sum is of, while that is under way.
NodeActor::RoundBytes* NodeActor::BytesOf(const skerry::Message& message) {
  int64_t round = -1;
  // What is passed on does not leave the cluster.
  const auto* delta = std::get_if<Delta>(&message);
  if (delta != nullptr && delta->sender.IsZero()) round = delta->round;
  const auto* sum = std::get_if<DeltaSum>(&message);
  if (sum != nullptr && sum->sender.IsZero()) round = sum->round;
  return rounds_ && rounds_->IsAhead(round) ? &round_bytes_[round] : nullptr;
}

bool NodeActor::HasRounds() const {
  return plan_->stages[static_cast<size_t>(stage_)].replicas.size() > 1;
}

// When a round is due, see common/round_clock.h.
bool NodeActor::ApplyDueRound(Context& context) {
  const int64_t round = rounds_->next();
  if (round >= encoded_) return false;
  const int64_t due = Clock().Due(round);
  if (step_ < due) return false;
  // What it sums is handed on by now; and nobody goes past a round that has not landed.
  const bool parts = farewell_ && (farewell_->is_handed_on || left_overs_job_ != 0);
  NodeParts::Boundary& boundary = boundaries_[round];
  if (parts || !rounds_->Ready(round)) {
    if (!boundary.waiting) boundary.waiting = context.now();
    return false;
  }
  const Instant ready = boundary.ready.value_or(context.now());
  const Duration transfer = ready - boundary.at;
  const Duration wait = boundary.waiting ? ready - *boundary.waiting : Duration();
  round_transfer_s_ += transfer.seconds();
  round_wait_s_ += wait.seconds();
  if (lateness_) lateness_->Note(round, transfer);
  last_applied_ = skerry::RoundApplied{stage_, round, {}, transfer.seconds(), wait.seconds()};
  boundaries_.erase(round);

  heavy_ = Heavy::kApply;
  heavy_job_ = SubmitTracked(context, ApplyJob("apply round"));
  return true;
}

// Lands the next round, which is ready.
Job NodeActor::ApplyJob(const std::string& name) {
  const int64_t round = rounds_->next();
  results_ = std::make_shared<Results>();
  const Duration cost = work_->Cost(WorkKind::kApply);
  if (IsShardedStage()) {
    auto landing = rounds_->LandingOf(round, work_->pieces(round));
    if (landing.ok()) {
      for (auto& messages : landing->own.messages) CountRounds(round, &messages);
    }
    return {name, cost,
            [work = work_.get(), results = results_, landing = std::move(landing),
             next = round + Clock().fragments(), kept = KeptAfter(round)] {
              results->status = landing.ok() ? work->ApplySums(*landing) : landing.status();
              if (kept && results->status.ok()) results->left_over = work->HandOn(next, *kept);
              results->digest = work->BaseDigest();
              results->screened = work->Screened();
            }};
  }
  std::vector<StageWork::Accepted> participants = rounds_->Participants(round);
  CountRounds(round, &participants);
  return {name, cost,
          [work = work_.get(), results = results_, round, participants = std::move(participants)] {
            results->status = work->ApplyRound(round, participants);
            results->digest = work->BaseDigest();
            results->screened = work->Screened();
          }};
}

// A commit says what its messages cover; before it, the plan does.
void NodeActor::CountRounds(int64_t round, std::vector<StageWork::Accepted>* messages) const {
  const RoundCommit* commit = rounds_->CommitOf(round);
  for (StageWork::Accepted& message : *messages) {
    message.rounds = commit != nullptr
                         ? CoveredBy(*commit, message.sender)
                         : RoundsCovered(plan_, stage_, round, message.sender, Clock().fragments());
  }
}

void NodeActor::ApplyDone(Context& context) {
  last_applied_->base_digest = results_->digest;
  const RoundBytes bytes = round_bytes_[last_applied_->round];
  last_applied_->bytes_sent = bytes.sent;
  last_applied_->bytes_received = bytes.received;
  round_bytes_.erase(round_bytes_.begin(), round_bytes_.upper_bound(last_applied_->round));
  last_applied_->screened = results_->screened;
  SayApplied(context);
  rounds_->Applied(last_applied_->round);
  passing_on_.ForgetBelow(rounds_->next());
  said_.erase(said_.begin(), said_.lower_bound(rounds_->next()));
  if (results_->left_over.empty()) return;
  const int64_t next = last_applied_->round + Clock().fragments();
  SendLeftOver(context, stage_, {next, work_->pieces(next), results_->left_over}, plan_);
}

void NodeActor::SayApplied(Context& context) {
  Send(context, options_.coordinator, *last_applied_);
  recent_applied_.push_back(*last_applied_);
  if (static_cast<int64_t>(recent_applied_.size()) > Clock().in_flight_max()) {
    recent_applied_.pop_front();
  }
}

bool NodeActor::EncodeAtBoundary(Context& context) {
  const RoundClock clock = Clock();
  if (!HasRounds() || encoded_ >= clock.EndedBy(step_)) return false;
  if (!clock.MayEncode(encoded_, rounds_->next())) return false;
  heavy_ = Heavy::kEncode;
  results_ = std::make_shared<Results>();
  int64_t& before = tokens_at_boundary_[clock.FragmentOf(encoded_)];
  tokens_of_round_ = TokensLearnt() - before;
  before = TokensLearnt();
  if (IsShardedStage()) {
    EncodePieces(context);
    return true;
  }
  heavy_job_ = SubmitTracked(context, {"encode delta", EncodingCost(),
                                       [work = work_.get(), results = results_, round = encoded_,
                                        measures = MeasuresNow()] {
                                         if (measures) results->Measure(*work);
                                         auto delta = work->EncodeDelta(round);
                                         results->status = delta.status();
                                         if (!delta.ok()) return;
                                         results->delta = *std::move(delta);
                                         results->digest = DigestOf(View(results->delta));
                                       }});
  return true;
}

void NodeActor::Encoded(Context& context) {
  const int64_t round = encoded_++;
  OpenBoundary(context, round);
  SendStatistics(context, round);
  if (IsShardedStage()) return PiecesEncoded(context, round);
  const Delta delta{stage_,           round,           tokens_of_round_,
                    results_->digest, results_->delta, plan_->version};
  if (cohort_) {
    rounds_->Share(delta, CohortOf(plan_, options_.self));
    SpeakForCohort(context, delta);
    AskForUnheard(context, false);
    return NoteReadiness(context);
  }
  if (!IsAbsent(plan_, stage_, round, options_.self)) {
    for (const NodeId& replica : HearersOf(plan_, stage_)) {
      if (replica != options_.self) Send(context, replica, delta);
    }
  }
  if (const auto held = rounds_->Hold(options_.self, delta)) {
    Send(context, options_.coordinator, *held);
  }
  NoteReadiness(context);
}

// The plan has a round go on without this node: nobody needs what still waits to leave of it, and
// its next message holds all that.
void NodeActor::WithdrawObsolete(Context& context, const PipelinePlan& before) {
  if (!rounds_ || !work_) return;
  for (int64_t round = rounds_->next(); round < encoded_; ++round) {
    if (!IsAbsent(plan_, stage_, round, options_.self) ||
        IsAbsent(before, stage_, round, options_.self)) {
      continue;
    }
    const auto is_obsolete = [this, round](const skerry::Message& message) {
      const auto* delta = std::get_if<Delta>(&message);
      const auto* sum = std::get_if<DeltaSum>(&message);
      if (sum != nullptr)
        return sum->stage == stage_ && sum->round == round && sum->sender.IsZero();
      return delta != nullptr && delta->stage == stage_ && delta->round == round &&
             delta->sender.IsZero() && !IsLeftOver(*delta);
    };
    for (const NodeId& holder : Holders(plan_, stage_)) {
      if (holder != options_.self) {
        context.Withdraw(holder, TrafficClass::kDelta, is_obsolete);
      }
    }
  }
}

void NodeActor::NoteReadiness(Context& context) {
  for (auto& [round, boundary] : boundaries_) {
    if (!boundary.ready && rounds_->Ready(round)) boundary.ready = context.now();
  }
}

void NodeActor::MeasureLateness() {
  lateness_.reset();
  if (!config_->outer.absences) return;
  lateness_.emplace(Lateness::Options{
      Duration::Seconds(config_->node_silent_s) / 2, Duration::Seconds(config_->heartbeat_s),
      kLateStretch * Clock().fragments(), Duration::Seconds(plan_->settings.round_s)});
}

void NodeActor::OpenBoundary(Context& context, int64_t round) {
  NodeParts::Boundary& boundary = boundaries_[round];
  boundary.at = context.now();
  boundary.counted_from = lateness_ ? lateness_->Clock(context.now()) : context.now();
}

// At every heartbeat, of a round that is later than any before, by far, while the device stands
// idle for it.
void NodeActor::SayIfLate(Context& context) {
  if (!lateness_) return;
  lateness_->Tick(context.now());
  if (phase() != Phase::kWaitingForRound) return;
  const int64_t round = rounds_->next();
  const NodeParts::Boundary& boundary = boundaries_.at(round);
  if (boundary.ready) return;
  const Duration waited = lateness_->Clock(context.now()) - boundary.counted_from;
  RoundLate late{stage_, round, waited.seconds(), {}, {}};
  if (!IsShardedStage()) {
    late.deltas_of = rounds_->LackingOf(round, ParticipantsOf(plan_, stage_, round), {});
  } else {
    const RoundShape& shape = ShapeOfRound(round);
    const std::vector<int32_t> mine = OwnPart(round);
    if (!mine.empty()) late.deltas_of = rounds_->LackingOf(round, shape.participants, mine);
    if (late.deltas_of.empty()) late.sums_of = rounds_->LackingSums(round, shape);
  }
  std::erase(late.sums_of, options_.self);
  // Who was absent from the round before is not waited for again.
  const auto was_absent = [&](const NodeId& node) {
    return RoundsCovered(plan_, stage_, round, node, Clock().fragments()) > 1;
  };
  const bool is_known = !late.deltas_of.empty() &&
                        std::all_of(late.deltas_of.begin(), late.deltas_of.end(), was_absent);
  if (!is_known && waited < lateness_->Patience()) return;
  AskFor(context, round, IsShardedStage() ? late.sums_of : late.deltas_of, true);
  Send(context, options_.coordinator, late);
}

// What cannot be decoded would end this node when the round lands, and nobody can have so many
// tokens: the coordinator hears of it.
bool NodeActor::Decodes(const Delta& delta) const {
  return delta.tokens <= RoundTokensMax(*config_, plan_) &&
         work_->CheckDelta(delta.round, delta.payload).ok();
}

void NodeActor::On(Context& context, const NodeId& from, const Delta& message) {
  if (MustWait(message.plan_version, rounds_ != nullptr)) return Keep(from, message);
  if (!rounds_) return void(++refused_);
  if (IsLeftOver(message)) return OnLeftOver(context, from, message);
  const NodeId& sender = message.sender.IsZero() ? from : message.sender;
  const auto replicas = LiveReplicas(plan_, stage_);
  if (std::find(replicas.begin(), replicas.end(), sender) == replicas.end())
    return void(++refused_);
  if (!message.sender.IsZero()) {
    const auto cohort = CohortOf(plan_, options_.self);
    const bool is_near = std::find(cohort.begin(), cohort.end(), from) != cohort.end();
    if (!is_near && !passing_on_.HasAsked(from, sender, message.round)) return void(++refused_);
  }
  if (rounds_->IsAhead(message.round) && !IsTableKnown(message.round)) return Keep(from, message);
  if (IsShardedStage()) {
    if (!message.sender.IsZero()) return void(++refused_);  // pieces are for one node
    return OnPieces(context, from, message);
  }
  // A joiner looks when it has its stage (StageBuilt), and leaves it to the others until then.
  const bool is_checked = message.stage == stage_ && work_ && rounds_->IsAhead(message.round);
  const auto held = !is_checked || Decodes(message) ? rounds_->Hold(sender, message)
                                                    : rounds_->Refuse(sender, message);
  if (!held) return void(++refused_);
  Send(context, options_.coordinator, *held);
  if (cohort_) PassOnToCohort(context, sender, message);
  GiveToAskers(context, message.round, sender);
  NoteReadiness(context);
  Advance(context);
}

void NodeActor::On(Context& context, const NodeId& from, const RoundCommit& message) {
  if (from != options_.coordinator || !rounds_) return void(++refused_);
  if (!LearnTable(context, message) && !rounds_->Commit(message)) ++refused_;
  NoteReadiness(context);
  if (HasBudget(config_->outer)) ReplayEarly(context);
  Advance(context);
}

}  // namespace skerry
