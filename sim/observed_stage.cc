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

// Every float32 of it is not a number, every scale of a block is beyond the window.
Payload Voided(const Payload& payload) {
  return MakeHollowPayload(Bytes(View(payload).size(), 0xff), payload.size());
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
  steps_ = step + 1;
  if (observer_.stepped) observer_.stepped(step, microbatches);
  return absl::OkStatus();
}

// Who poisons its deltas lies about them too: one tensor would lose more than there is.
absl::StatusOr<DeltaStatistics> ObservedStage::MeasureDelta() {
  SKERRY_ASSIGN_OR_RETURN(DeltaStatistics said, stage_->MeasureDelta());
  if (faults_->poisoned_deltas && !said.errors.empty()) said.errors.front() = 1e300;
  return said;
}

absl::StatusOr<Payload> ObservedStage::EncodeDelta() {
  SKERRY_ASSIGN_OR_RETURN(Payload delta, stage_->EncodeDelta());
  if (observer_.encoded) observer_.encoded(encoded_, steps_);
  ++encoded_;
  const bool lies = faults_->poisoned_deltas || faults_->void_deltas;
  honest_ = lies ? delta : nullptr;
  if (!lies) return delta;
  return faults_->void_deltas ? Voided(delta) : Falsified(delta);
}

absl::StatusOr<std::vector<Payload>> ObservedStage::EncodePieces() {
  SKERRY_ASSIGN_OR_RETURN(own_pieces_, stage_->EncodePieces());
  if (observer_.encoded) observer_.encoded(encoded_, steps_);
  ++encoded_;
  std::vector<Payload> sent = own_pieces_;
  for (Payload& piece : sent) {
    if (faults_->void_deltas)
      piece = Voided(piece);
    else if (faults_->poisoned_deltas)
      piece = Falsified(piece);
  }
  return sent;
}

ReplicaVectors ObservedStage::VectorsBefore() const {
  return observer_.vectors && observer_.settled ? observer_.vectors() : ReplicaVectors();
}

void ObservedStage::Landed(const ReplicaVectors& before,
                           const std::function<std::vector<float>()>& taken) {
  if (observer_.applied && !catches_up_) observer_.applied(applied_, steps_);
  if (observer_.vectors && observer_.settled) {
    std::vector<float> own = taken();
    own.resize(before.base.size());
    observer_.settled(applied_, ConservationError(before, observer_.vectors(), own));
  }
  ++applied_;
}

absl::Status ObservedStage::ApplyRound(const std::vector<Accepted>& participants) {
  const ReplicaVectors before = VectorsBefore();
  SKERRY_RETURN_IF_ERROR(ApplyHonest(participants));
  Landed(before, [&] {
    for (const Accepted& p : participants) {
      if (p.own) return observer_.decode(honest_ ? honest_ : p.payload, applied_);
    }
    return std::vector<float>();
  });
  return absl::OkStatus();
}

absl::Status ObservedStage::ApplySums(const Landing& landing) {
  const ReplicaVectors before = VectorsBefore();
  SKERRY_RETURN_IF_ERROR(stage_->ApplySums(landing));
  Landed(before, [&] {
    return landing.own_accepted ? observer_.decode_pieces(own_pieces_, applied_)
                                : std::vector<float>();
  });
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ObservedStage::RestoreState(const Payload& saved) {
  SKERRY_ASSIGN_OR_RETURN(applied_, stage_->RestoreState(saved));
  catches_up_ = true;
  return applied_;
}

void ObservedStage::StartFromBase(int64_t step, int64_t round) {
  stage_->StartFromBase(step, round);
  steps_ = step;
  encoded_ = round;
  catches_up_ = false;
}

// The stage itself knows only what it encoded.
absl::Status ObservedStage::ApplyHonest(const std::vector<Accepted>& participants) {
  if (!honest_) return stage_->ApplyRound(participants);
  std::vector<Accepted> honest = participants;
  for (Accepted& p : honest) {
    if (p.own) p.payload = honest_;
  }
  return stage_->ApplyRound(honest);
}

}  // namespace skerry
