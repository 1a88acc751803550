#include "sim/observed_stage.h"

#include <utility>

#include "common/rng.h"
#include "common/status.h"

namespace skerry {
namespace {

// Changes low bits in the middle, where they do harm and no header is.
Payload Falsified(const Payload& payload) {
  if (!payload || payload->empty()) return payload;
  Bytes bytes = *payload;
  bytes[bytes.size() / 2] ^= 0x15;
  return MakeHollowPayload(std::move(bytes), payload.size());
}

}  // namespace

ObservedStage::ObservedStage(std::unique_ptr<StageWork> stage, Observer observer,
                             std::shared_ptr<const StageFaults> faults)
    : stage_(std::move(stage)), observer_(std::move(observer)), faults_(std::move(faults)) {}

Duration ObservedStage::Cost(WorkKind kind) const {
  return Duration::Seconds(stage_->Cost(kind).seconds() * faults_->slow);
}

// Which ones are wrong depends on the microbatch only, so that a run can be repeated.
WorkResult ObservedStage::Outgoing(int64_t step, int32_t microbatch, WorkResult result) const {
  if (observer_.worked) observer_.worked(step, microbatch);
  if (faults_->wrong_results <= 0) return result;
  Rng rng(static_cast<uint64_t>(step), "wrong results", static_cast<uint64_t>(microbatch));
  if (rng.Uniform() < faults_->wrong_results) result.values = Falsified(result.values);
  return result;
}

WorkResult ObservedStage::ForwardFirst(int64_t step, int32_t microbatch) {
  return Outgoing(step, microbatch, stage_->ForwardFirst(step, microbatch));
}

WorkResult ObservedStage::Forward(int64_t step, int32_t microbatch, const Payload& in) {
  return Outgoing(step, microbatch, stage_->Forward(step, microbatch, in));
}

WorkResult ObservedStage::Loss(int64_t step, int32_t microbatch, const Payload& in) {
  return Outgoing(step, microbatch, stage_->Loss(step, microbatch, in));
}

WorkResult ObservedStage::Backward(int64_t step, int32_t microbatch, const Payload& d_out) {
  return Outgoing(step, microbatch, stage_->Backward(step, microbatch, d_out));
}

void ObservedStage::Accumulate(int64_t step, int32_t microbatch) {
  stage_->Accumulate(step, microbatch);
  if (observer_.accumulated) observer_.accumulated(step, microbatch);
}

absl::Status ObservedStage::OptimizerStep(int64_t step, int32_t microbatches) {
  SKERRY_RETURN_IF_ERROR(stage_->OptimizerStep(step, microbatches));
  if (observer_.stepped) observer_.stepped(step, microbatches);
  return absl::OkStatus();
}

absl::StatusOr<Payload> ObservedStage::EncodeDelta() {
  SKERRY_ASSIGN_OR_RETURN(Payload delta, stage_->EncodeDelta());
  honest_ = faults_->poisoned_deltas ? delta : nullptr;
  return honest_ ? Falsified(delta) : delta;
}

// The stage itself knows only what it encoded.
absl::Status ObservedStage::ApplyRound(const std::vector<Accepted>& participants) {
  if (!honest_) return stage_->ApplyRound(participants);
  std::vector<Accepted> honest = participants;
  for (Accepted& p : honest) {
    if (p.own) p.payload = honest_;
  }
  return stage_->ApplyRound(honest);
}

}  // namespace skerry
