// Joining a stage in training, giving a joiner the stage's state, moving to another stage, and
// starting over (docs/PROTOCOL.md, 15, 16 and 21).

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
namespace {

constexpr Duration kStateKept = Duration::Seconds(60);  // without a request
constexpr int64_t kTransfersMax = 8;                    // of which none gave the state

}  // namespace

// ---- starting over -----------------------------------------------------------------------------

// What this process holds of the run is of a past that is over. Messages that wait for a newer plan
// stay.
void NodeActor::DropStage(Context& context) {
  if (work_) {  // jobs that refer to it run before this one
    context.Submit(
        {"drop stage", Duration(),
         [work = std::shared_ptr<StageWork>(std::move(work_))] { static_cast<void>(work); }});
  }
  stage_ = -1;
  pipeline_.reset();
  rounds_.reset();
  step_ = encoded_ = 0;
  open_ = false;
  boundaries_.clear();
  lateness_.reset();
  shapes_ = {};
  reported_sums_.clear();
  tables_.clear();
  commits_known_ = 0;
  said_.clear();
  covered_.clear();
  tokens_at_boundary_.clear();
  tokens_of_round_ = 0;
  heavy_ = Heavy::kNone;
  heavy_job_ = 0;
  results_.reset();
  base_bytes_ = nullptr;
  base_requests_.clear();
  joined_since_ = 0;
  state_fetcher_.reset();
  restored_ = false;
  saved_.reset();
  state_request_.reset();
  checkpoint_wanted_.reset();
  checkpoint_.reset();
  chunk_job_ = 0;
  recent_reports_.clear();
  last_applied_.reset();
  recent_applied_.clear();
  round_bytes_.clear();
}

// The others went on. It goes on as a new process would, without leaving.
void NodeActor::StartOver(Context& context, const std::string& why) {
  context.Event("started_over", absl::StrFormat(R"("stage":%d,"why":"%s")", stage_, why));
  DropStage(context);
  state_ = State::kJoining;
  plan_ = {};
  early_.clear();
  SayHello(context);
  context.CancelTimer(hello_timer_);
  hello_timer_ = context.StartTimer(kHelloPatience);
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
  commits_known_ = plan_.start.round;
  rounds_ = std::make_unique<RoundKeeper>(stage_, options_.self, joiner.base_version,
                                          Clock().RoundsIn(RoundKeeper::kJoinersRoundsAhead));
  state_ = State::kCatchingUp;
  ReplayEarly(context);
  if (stage_ == 0) {
    fetcher_.Start(context, shard_names_);
    if (!fetcher_.status().ok()) return Fail(context, fetcher_.status());
    if (!fetcher_.Done()) return;
  }
  BuildStage(context);
}

// Replicas that have what a joiner lacks, beginning after its own slot.
void NodeActor::TendJoining(Context& context) {
  if (!work_ || restored_ || heavy_ != Heavy::kNone) return;
  if (!state_fetcher_) {
    state_fetcher_ = std::make_unique<StateFetcher>(
        stage_, [this](Context& c, const NodeId& to, skerry::Message message) {
          Send(c, to, std::move(message));
        });
  }
  if (state_fetcher_->transfers() > kTransfersMax) {
    return StartOver(context, "nobody could give the state of the stage");
  }
  std::vector<NodeId> donors = LiveReplicas(plan_, stage_);
  std::erase(donors, options_.self);
  const auto own = static_cast<size_t>(SlotOf(plan_, options_.self)->replica);
  if (!donors.empty()) {
    std::rotate(donors.begin(), donors.begin() + static_cast<int64_t>(own % donors.size()),
                donors.end());
  }
  state_fetcher_->Tend(context, donors);
}

void NodeActor::StateArrived(Context& context) {
  heavy_ = Heavy::kRestore;
  results_ = std::make_shared<Results>();
  heavy_job_ = SubmitTracked(
      context, {"restore state", work_->Cost(WorkKind::kApply),
                [work = work_.get(), results = results_, state = state_fetcher_->state()] {
                  const auto version = work->RestoreState(state);
                  results->status = version.status();
                  if (!version.ok()) return;
                  results->version = *version;
                  results->digest = work->BaseDigest();
                }});
}

// Its first word: the digest of the base it was given, as if it had landed that round itself.
void NodeActor::StateRestored(Context& context) {
  if (BeginsWithCheckpoint()) return StartRestored(context);
  const int64_t version = results_->version;
  if (!results_->status.ok() || version != state_fetcher_->version() || version < rounds_->next()) {
    state_fetcher_->Reject();
    return TendJoining(context);
  }
  state_fetcher_.reset();
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
    encoded_ = plan_.start.round;
    commits_known_ = plan_.start.round;
    return StartTraining(context, plan_.start.step);
  }
  const Joiner& joiner = *JoinerOf(plan_, options_.self);
  encoded_ = joiner.from_round;
  // Rounds may be under way that the others encoded before the first step.
  for (int64_t round = rounds_->next(); round < encoded_; ++round) {
    OpenBoundary(context, round);
  }
  StartTraining(context, joiner.from_step);
}

// ---- giving ------------------------------------------------------------------------------------

// Own deltas of rounds that a new joiner will land: it came after they were sent.
void NodeActor::SendPendingToJoiners(Context& context, const PipelinePlan& before) {
  if (!rounds_) return;
  for (const Joiner& joiner : plan_.joining) {
    const Joiner* known = JoinerOf(before, joiner.node);
    const bool is_new = known == nullptr || known->since != joiner.since;
    if (!is_new || joiner.node == options_.self || !MayHaveState(joiner.node)) continue;
    for (Delta& delta : rounds_->Own()) {
      delta.plan_version = plan_.version;
      Send(context, joiner.node, std::move(delta));
    }
    for (int64_t round = rounds_->next(); IsShardedStage() && rounds_->IsAhead(round); ++round) {
      const DeltaSum* own = rounds_->OwnSum(round, ShapeOfRound(round).id);
      if (own == nullptr) continue;
      DeltaSum sum = *own;
      sum.plan_version = plan_.version;
      Send(context, joiner.node, std::move(sum));
    }
  }
}

bool NodeActor::MayHaveState(const NodeId& node) const {
  const auto slot = SlotOf(plan_, node);
  return slot && slot->stage == stage_ && JoinerOf(plan_, node) != nullptr;
}

void NodeActor::OnStateRequest(Context& context, const NodeId& from, const ObjectRequest& request) {
  const bool gives = state_ == State::kTraining || state_ == State::kFinished;
  const bool may =
      gives && MayHaveState(from) && rounds_->next() >= JoinerOf(plan_, from)->base_version;
  if (may && request.object == StateObject(stage_) && request.offset == 0) {
    state_request_ = {from, request};
    saved_.reset();
    return Advance(context);
  }
  if (may && saved_ && saved_->to == from &&
      request.object == StateObject(stage_, saved_->version)) {
    saved_->used = context.now();
    return SendPart(context, from, request, saved_->bytes);
  }
  Send(context, from, ObjectChunk{request.object, request.offset, -1, nullptr});
}

// Between two heavy jobs no round lands: what is saved is of one version.
bool NodeActor::SaveStateIfAsked(Context& context) {
  const bool gives = state_ == State::kTraining || state_ == State::kFinished;
  if (!gives || heavy_ != Heavy::kNone || !state_request_) return false;
  heavy_ = Heavy::kSave;
  results_ = std::make_shared<Results>();
  results_->version = rounds_->next();
  heavy_job_ = SubmitTracked(context, {"save state", work_->Cost(WorkKind::kApply),
                                       [work = work_.get(), results = results_] {
                                         auto state = work->SaveState();
                                         results->status = state.status();
                                         if (state.ok()) results->base = *std::move(state);
                                       }});
  return true;
}

void NodeActor::StateSaved(Context& context) {
  if (!state_request_) return;
  const auto [to, request] = *std::exchange(state_request_, std::nullopt);
  saved_ = {to, results_->version, results_->base, context.now()};
  ObjectRequest named = request;
  named.object = StateObject(stage_, saved_->version);
  SendPart(context, to, named, saved_->bytes);
}

void NodeActor::DropStaleState(Context& context) {
  if (saved_ && (context.now() - saved_->used > kStateKept || !MayHaveState(saved_->to))) {
    saved_.reset();
  }
  if (checkpoint_ && context.now() - checkpoint_->used > kStateKept) checkpoint_.reset();
  if (state_request_ && !MayHaveState(state_request_->first)) state_request_.reset();
}

}  // namespace skerry
