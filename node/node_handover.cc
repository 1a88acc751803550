// Joining a stage in training, moving to another stage, and starting over (docs/PROTOCOL.md, 15, 16
// and 21).

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/route.h"

namespace skerry {

// ---- starting over -----------------------------------------------------------------------------

// What this process holds of the run is of a past that is over. Messages that wait for a newer plan
// stay.
void NodeActor::DropStage(Context& context) {
  DropCohort(context);
  if (work_) {  // jobs that refer to it run before this one
    context.Submit(
        {"drop stage", Duration(),
         [work = std::shared_ptr<StageWork>(std::move(work_))] { static_cast<void>(work); }});
  }
  stage_ = -1;
  pipeline_.reset();
  rounds_.reset();
  passing_on_ = {};
  step_ = encoded_ = 0;
  open_ = false;
  boundaries_.clear();
  lateness_.reset();
  shapes_ = {};
  reported_sums_.clear();
  sum_checks_ = {};
  work_checks_ = WorkChecks(options_.self);
  former_replicas_.clear();
  retiring_.clear();
  taken_over_.clear();
  tables_.clear();
  commits_known_ = 0;
  said_.clear();
  tokens_at_boundary_.clear();
  tokens_of_round_ = 0;
  heavy_ = Heavy::kNone;
  heavy_job_ = 0;
  results_.reset();
  base_bytes_ = nullptr;
  base_requests_.clear();
  joined_since_ = 0;
  state_fetcher_.reset();
  transfer_.reset();
  restored_ = false;
  giving_.reset();
  digest_job_ = 0;
  checkpoint_wanted_.reset();
  checkpoint_.reset();
  chunk_job_ = 0;
  recent_reports_.clear();
  passed_on_.clear();
  last_applied_.reset();
  recent_applied_.clear();
  round_bytes_.clear();
}

// The others went on. It goes on as a new process would, without leaving.
void NodeActor::StartOver(Context& context, const std::string& why) {
  if (farewell_) return EndFarewell(context);
  context.Event("started_over", absl::StrFormat(R"("stage":%d,"why":"%s")", stage_, why));
  DropStage(context);
  state_ = State::kJoining;
  plan_ = {};
  early_.clear();
  SayHello(context);
  context.CancelTimer(hello_timer_);
  hello_timer_ = context.StartTimer(hello_patience_);
}

// ---- moving ------------------------------------------------------------------------------------

// A plan that this node works by, but in another stage: its slot there is somebody else's from that
// plan on, so that what it still has under way counts no more than a dead node's.
bool NodeActor::IsMovedBy(const PipelinePlan& plan) const {
  const Joiner* joiner = JoinerOf(plan, options_.self);
  const auto slot = SlotOf(plan, options_.self);
  return stage_ >= 0 && joiner != nullptr && !joiner->IsFixed() && joiner->since > joined_since_ &&
         slot && slot->stage != stage_;
}

void NodeActor::MoveTo(Context& context, int32_t stage) {
  context.Event(
      "moves", absl::StrFormat(R"("from_stage":%d,"to_stage":%d,"step":%d)", stage_, stage, step_));
  if (farewell_) return EndFarewell(context);
  PartFromStage(context);
  DropStage(context);
  stage_ = stage;
  Join(context);
  SendHeartbeat(context);
}

// ---- joining -----------------------------------------------------------------------------------

// Deltas are held from the first moment on: the stage freezes no round without that.
void NodeActor::Join(Context& context) {
  const Joiner& joiner = *JoinerOf(plan_, options_.self);
  if (joiner.IsFixed()) return StartOver(context, "a part that only an earlier self could play");
  joined_since_ = joiner.since;
  commits_known_ = plan_->start.round;
  rounds_ = std::make_unique<RoundKeeper>(stage_, options_.self, joiner.base_version,
                                          Clock().RoundsIn(RoundKeeper::kJoinersRoundsAhead));
  state_ = State::kCatchingUp;
  transfer_ = std::make_unique<StateTransfer>(
      stage_, joiner.base_version, options_.coordinator,
      [this](Context& c, const NodeId& to, skerry::Message message) {
        Send(c, to, std::move(message));
      });
  TendJoining(context);
  ReplayEarly(context);
  if (stage_ != 0 || HasData(context)) BuildStage(context);
}

void NodeActor::TendJoining(Context& context) {
  if (!transfer_) return;
  std::vector<NodeId> donors = LiveReplicas(plan_, stage_);
  std::erase(donors, options_.self);
  transfer_->SetDonors(context, donors);
}

void NodeActor::On(Context& context, const NodeId& from, const StateRoot& message) {
  if (!transfer_ && stage_ < 0) return Keep(from, message);  // of a plan that is not here yet
  if (transfer_) transfer_->OnRoot(context, from, message);
}

void NodeActor::StateArrived(Context& context) {
  heavy_ = Heavy::kRestore;
  results_ = std::make_shared<Results>();
  heavy_job_ = SubmitTracked(
      context, {"restore state", work_->Cost(WorkKind::kApply),
                [work = work_.get(), results = results_,
                 chunks = std::make_shared<StageWork::JoinersChunks>(transfer_->Take())] {
                  results->status = work->RestoreJoined(*chunks);
                  results->version = chunks->version;
                  if (results->status.ok()) results->digest = work->BaseDigest();
                }});
  transfer_.reset();
}

// Its first word: the digest of the base it was given, as if it had landed that round itself.
void NodeActor::StateRestored(Context& context) {
  if (BeginsWithCheckpoint()) return StartRestored(context);
  const int64_t version = results_->version;
  if (!results_->status.ok()) return StartOver(context, ErrorText(results_->status));
  restored_ = true;
  rounds_->SkipTo(version);
  if (version > 0) {
    last_applied_ = skerry::RoundApplied{stage_, version - 1, results_->digest, 0, 0};
    SayApplied(context);
  }
  context.Event("restored", absl::StrFormat(R"("stage":%d,"version":%d)", stage_, version));
  SendHeartbeat(context);
  CatchUp(context);
}

// Lands what is committed, at once: no steps of its own depend on it. Then begins, when the round
// before its first step has landed.
void NodeActor::CatchUp(Context& context) {
  if (!restored_ || heavy_ != Heavy::kNone) return;
  const Joiner& joiner = *JoinerOf(plan_, options_.self);
  const int64_t round = rounds_->next();
  const int64_t begins =
      joiner.IsFixed() ? Clock().LandedBy(joiner.from_step) : std::numeric_limits<int64_t>::max();
  if (round == begins) {
    heavy_ = Heavy::kStart;
    results_ = std::make_shared<Results>();
    heavy_job_ =
        SubmitTracked(context, {"start from base", work_->Cost(WorkKind::kEncode),
                                [work = work_.get(), step = joiner.from_step,
                                 first = joiner.from_round] { work->StartFromBase(step, first); }});
    return;
  }
  if (!rounds_->Ready(round)) return;
  heavy_ = Heavy::kCatchUp;
  heavy_job_ = SubmitTracked(context, ApplyJob("catch up round"));
}

void NodeActor::CaughtUp(Context& context) {
  const int64_t round = rounds_->next();
  last_applied_ = skerry::RoundApplied{stage_, round, results_->digest, 0, 0, results_->screened};
  SayApplied(context);
  rounds_->Applied(round);
  if (!rounds_->Ready(rounds_->next())) SendHeartbeat(context);
  CatchUp(context);
}

void NodeActor::StartReplica(Context& context) {
  if (BeginsWithCheckpoint()) {
    encoded_ = plan_->start.round;
    commits_known_ = plan_->start.round;
    return StartTraining(context, plan_->start.step);
  }
  const Joiner& joiner = *JoinerOf(plan_, options_.self);
  encoded_ = joiner.from_round;
  // Rounds may be under way that the others encoded before the first step.
  for (int64_t round = rounds_->next(); round < encoded_; ++round) {
    OpenBoundary(context, round);
  }
  StartTraining(context, joiner.from_step);
}

}  // namespace skerry
