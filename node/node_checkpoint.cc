// Keeping the state of a version for the coordinator's checkpoint, and beginning with one
// (docs/PROTOCOL.md, 35 to 40).

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/digests.h"
#include "common/status.h"
#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr int64_t kTransfersMax = 8;               // of which none gave the state
constexpr Duration kKept = Duration::Seconds(60);  // without a request
// As many in a job between two tasks as take hardly longer than one (common/digests.h), at about
// the speed of that.
constexpr size_t kDigestsTogether = 8;
constexpr double kDigestBytesPerS = 1e9;

std::string CheckpointObject(int32_t stage, int64_t round) {
  return absl::StrFormat("checkpoint/%d/%d", stage, round);
}

std::span<const uint8_t> ChunkOf(const Payload& state, size_t index) {
  return PartOf(state, static_cast<int64_t>(index) * kCheckpointChunkBytes, kCheckpointChunkBytes);
}

size_t ChunksOf(const Payload& state) {
  return static_cast<size_t>((SizeOf(state) + kCheckpointChunkBytes - 1) / kCheckpointChunkBytes);
}

}  // namespace

// ---- keeping -----------------------------------------------------------------------------------

// Without rounds a version is the step at which it would be the base.
bool NodeActor::IsPast(int64_t version) const {
  if (HasRounds()) return rounds_->next() > version;
  const int64_t step = Clock().StartOf(version);
  return step_ > step || (step_ == step && open_);
}

void NodeActor::On(Context& context, const NodeId& from, const CheckpointRequest& message) {
  if (from != options_.coordinator || message.stage != stage_) return void(++refused_);
  checkpoint_.reset();
  chunk_job_ = 0;
  checkpoint_wanted_ = message.round;
  checkpoint_at_once_ = message.at_once;
  if (checkpoint_at_once_ && state_ == State::kFinished) return Advance(context);
  const bool may_come = state_ == State::kPreparing || state_ == State::kCatchingUp;
  if (state_ != State::kTraining && !may_come) return RefuseCheckpoint(context);
  Advance(context);
}

void NodeActor::RefuseCheckpoint(Context& context) {
  const int64_t round = *std::exchange(checkpoint_wanted_, std::nullopt);
  Send(context, options_.coordinator, CheckpointState{stage_, round, -1, {}});
}

// Between two heavy jobs no round lands and no step is made: what is kept is of one version, and
// copied at once after the round that led to it.
bool NodeActor::KeepCheckpointIfDue(Context& context) {
  const bool works =
      state_ == State::kTraining || (checkpoint_at_once_ && state_ == State::kFinished);
  if (!checkpoint_wanted_ || !works || heavy_ != Heavy::kNone) return false;
  const int64_t present = HasRounds() ? rounds_->next() : Clock().EndedBy(step_);
  const int64_t round = checkpoint_at_once_ ? present : *checkpoint_wanted_;
  if (!checkpoint_at_once_ && IsPast(round)) {
    RefuseCheckpoint(context);
    return false;
  }
  const bool is_due =
      HasRounds() ? rounds_->next() == round : !open_ && step_ == Clock().StartOf(round);
  if (!is_due && !checkpoint_at_once_) return false;
  checkpoint_wanted_.reset();
  heavy_ = Heavy::kCheckpoint;
  results_ = std::make_shared<Results>();
  results_->version = round;
  heavy_job_ =
      SubmitTracked(context, {"keep checkpoint", work_->Cost(WorkKind::kApply),
                              [work = work_.get(), results = results_, live = !HasRounds(), round] {
                                auto state = live ? work->SaveLiveState(round) : work->SaveState();
                                results->status = state.status();
                                if (state.ok()) results->base = *std::move(state);
                              }});
  return true;
}

void NodeActor::CheckpointKept(Context& context) {
  checkpoint_ = {results_->version, results_->base, {}, context.now()};
  DigestSomeChunks(context);
}

void NodeActor::DigestSomeChunks(Context& context) {
  chunk_digests_ = std::make_shared<std::vector<Digest>>();
  const size_t first = checkpoint_->chunks.size();
  const size_t end = std::min(first + kDigestsTogether, ChunksOf(checkpoint_->bytes));
  const double cost_s = static_cast<double>(kCheckpointChunkBytes) / kDigestBytesPerS;
  chunk_job_ =
      SubmitTracked(context, {"digest chunks", Duration::Seconds(cost_s),
                              [state = checkpoint_->bytes, digests = chunk_digests_, first, end] {
                                std::vector<std::span<const uint8_t>> chunks;
                                for (size_t i = first; i < end; ++i)
                                  chunks.push_back(ChunkOf(state, i));
                                *digests = DigestsOf(chunks);
                              }});
}

void NodeActor::ChunksDigested(Context& context) {
  chunk_job_ = 0;
  if (!checkpoint_) return Advance(context);
  std::vector<Digest>& chunks = checkpoint_->chunks;
  chunks.insert(chunks.end(), chunk_digests_->begin(), chunk_digests_->end());
  checkpoint_->used = context.now();
  if (checkpoint_->chunks.size() < ChunksOf(checkpoint_->bytes)) {
    DigestSomeChunks(context);
  } else {
    Send(context, options_.coordinator,
         CheckpointState{stage_, checkpoint_->round, SizeOf(checkpoint_->bytes),
                         checkpoint_->chunks});
  }
  Advance(context);
}

void NodeActor::OnCheckpointRequest(Context& context, const NodeId& from,
                                    const ObjectRequest& request) {
  if (from != options_.coordinator) return void(++refused_);
  const bool has = checkpoint_ && request.object == CheckpointObject(stage_, checkpoint_->round) &&
                   checkpoint_->chunks.size() == ChunksOf(checkpoint_->bytes);
  if (!has) {
    Send(context, from, ObjectChunk{request.object, request.offset, -1, nullptr});
    return;
  }
  checkpoint_->used = context.now();
  SendPart(context, from, request, checkpoint_->bytes);
}

void NodeActor::DropStaleCheckpoint(Context& context) {
  if (checkpoint_ && context.now() - checkpoint_->used > kKept) checkpoint_.reset();
}

// ---- beginning with one ------------------------------------------------------------------------

void NodeActor::StartStateArrived(Context& context) {
  heavy_ = Heavy::kRestore;
  results_ = std::make_shared<Results>();
  heavy_job_ = SubmitTracked(
      context, {"restore state", work_->Cost(WorkKind::kApply),
                [work = work_.get(), results = results_, state = state_fetcher_->state()] {
                  const auto version = work->RestoreState(state);
                  results->status = version.status();
                  if (version.ok()) results->version = *version;
                }});
}

void NodeActor::TendStart(Context& context) {
  if (!work_ || restored_ || heavy_ != Heavy::kNone) return;
  if (!state_fetcher_) {
    state_fetcher_ = std::make_unique<StateFetcher>(
        stage_, [this](Context& c, const NodeId& to, skerry::Message message) {
          Send(c, to, std::move(message));
        });
  }
  if (state_fetcher_->transfers() > kTransfersMax) {
    return StartOver(context, "what the coordinator gives is not the state of the stage");
  }
  state_fetcher_->Tend(context, {options_.coordinator});
}

void NodeActor::StartRestored(Context& context) {
  const PlanStart& start = plan_->start;
  if (!results_->status.ok() || results_->version != start.round) {
    state_fetcher_->Reject();
    return TendStart(context);
  }
  state_fetcher_.reset();
  restored_ = true;
  context.Event("restored", absl::StrFormat(R"("stage":%d,"version":%d,"step":%d)", stage_,
                                            start.round, start.step));
  rounds_ =
      std::make_unique<RoundKeeper>(stage_, options_.self, start.round, Clock().RoundsAhead());
  heavy_ = Heavy::kStart;
  results_ = std::make_shared<Results>();
  heavy_job_ = SubmitTracked(
      context, {"start from base", work_->Cost(WorkKind::kEncode),
                [work = work_.get(), start] { work->StartFromBase(start.step, start.round); }});
}

}  // namespace skerry
