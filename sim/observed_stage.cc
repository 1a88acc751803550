#include "sim/observed_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

Payload Scaled(const Payload& payload, double by) {
  if (!payload) return payload;
  Bytes bytes = *payload;
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    value = static_cast<float>(value * by);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
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
WorkResult ObservedStage::Outgoing(int64_t step, int32_t microbatch, WorkResult result,
                                   const Payload* in) const {
  if (observer_.worked) observer_.worked(step, microbatch);
  if (faults_->passes_on && in != nullptr) result.values = *in;
  if (faults_->scaled != 1) result.values = Scaled(result.values, faults_->scaled);
  if (faults_->wrong_results <= 0) return result;
  Rng rng(static_cast<uint64_t>(step), "wrong results", static_cast<uint64_t>(microbatch));
  if (rng.Uniform() < faults_->wrong_results) result.values = Falsified(result.values);
  return result;
}

// As a device says it at its boundary (kernels/backend.h).
WorkResult ObservedStage::OutOfMemory() {
  WorkResult result;
  result.status = ResourceExhausted("the device has no memory for a microbatch's activations");
  return result;
}

WorkResult ObservedStage::ForwardFirst(int64_t step, int32_t microbatch) {
  if (faults_->out_of_memory) return OutOfMemory();
  return Outgoing(step, microbatch, stage_->ForwardFirst(step, microbatch));
}

WorkResult ObservedStage::Forward(int64_t step, int32_t microbatch, const Payload& in) {
  if (faults_->out_of_memory) return OutOfMemory();
  return Outgoing(step, microbatch, stage_->Forward(step, microbatch, in), &in);
}

WorkResult ObservedStage::Loss(int64_t step, int32_t microbatch, const Payload& in) {
  return Outgoing(step, microbatch, stage_->Loss(step, microbatch, in));
}

WorkResult ObservedStage::Backward(int64_t step, int32_t microbatch, const Payload& d_out) {
  return Outgoing(step, microbatch, stage_->Backward(step, microbatch, d_out), &d_out);
}

WorkResult ObservedStage::RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                                          size_t part) {
  WorkResult made = stage_->RunBackwardPart(step, microbatch, d_out, part);
  if (part + 1 < stage_->GradientParts().size()) return made;
  return Outgoing(step, microbatch, std::move(made), &d_out);
}

absl::Status ObservedStage::TakePart(size_t part, int64_t step,
                                     std::span<const int32_t> microbatches, std::span<float> sums) {
  if (part == 0 && observer_.accumulated) {
    for (const int32_t microbatch : microbatches) observer_.accumulated(step, microbatch);
  }
  return stage_->TakePart(part, step, microbatches, sums);
}

void ObservedStage::SumPart(size_t part, int64_t step, std::span<const int32_t> microbatches) {
  if (part == 0 && observer_.accumulated) {
    for (const int32_t microbatch : microbatches) observer_.accumulated(step, microbatch);
  }
  stage_->SumPart(part, step, microbatches);
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

absl::Status ObservedStage::OptimizerStepOn(int64_t step, int32_t microbatches,
                                            std::span<const float> sums) {
  SKERRY_RETURN_IF_ERROR(stage_->OptimizerStepOn(step, microbatches, sums));
  steps_ = step + 1;
  if (observer_.stepped_together) observer_.stepped_together(step, stage_->LiveDigest());
  return absl::OkStatus();
}

// Who poisons its deltas lies about them too: one tensor would lose more than there is.
absl::StatusOr<DeltaStatistics> ObservedStage::MeasureDelta() {
  SKERRY_ASSIGN_OR_RETURN(DeltaStatistics said, stage_->MeasureDelta());
  if (faults_->poisoned_deltas && !said.errors.empty()) said.errors.front() = 1e300;
  return said;
}

absl::StatusOr<Payload> ObservedStage::EncodeDelta(int64_t round) {
  const ReplicaVectors before = Vectors(false);
  SKERRY_ASSIGN_OR_RETURN(Payload delta, stage_->EncodeDelta(round));
  own_[round] = {delta};
  Encoded(round, before);
  if (faults_->void_deltas) return Voided(delta);
  return faults_->poisoned_deltas ? Falsified(delta) : Wild(round, {delta}).front();
}

absl::StatusOr<std::vector<Payload>> ObservedStage::EncodePieces(int64_t round) {
  const ReplicaVectors before = Vectors(false);
  SKERRY_ASSIGN_OR_RETURN(own_[round], stage_->EncodePieces(round));
  Encoded(round, before);
  std::vector<Payload> sent = Wild(round, own_[round]);
  for (Payload& piece : sent) {
    if (faults_->void_deltas)
      piece = Voided(piece);
    else if (faults_->poisoned_deltas)
      piece = Falsified(piece);
  }
  return sent;
}

absl::StatusOr<std::vector<Payload>> ObservedStage::ReducePieces(
    const Reduction& reduction, std::vector<PieceState>* states) const {
  SKERRY_ASSIGN_OR_RETURN(std::vector<Payload> sums, stage_->ReducePieces(reduction, states));
  if (faults_->void_sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      own_sums_[reduction.round][reduction.pieces[i]] = sums[i];
      sums[i] = Voided(sums[i]);
    }
  }
  if (faults_->false_sums.factor == 0 || !observer_.false_sums) return sums;
  return observer_.false_sums(reduction, sums, *faults_, states);
}

// The stage itself knows of void sums only what it made.
StageWork::Landing ObservedStage::Honest(const Landing& landing) const {
  Landing honest = landing;
  honest.own_accepted = landing.own_accepted && !wild_.contains(landing.round);
  const auto sums = own_sums_.find(landing.round);
  if (sums == own_sums_.end()) return honest;
  for (const int32_t piece : landing.own.pieces) {
    const auto own = sums->second.find(piece);
    if (own != sums->second.end()) honest.sums[static_cast<size_t>(piece)] = own->second;
  }
  return honest;
}

SumVerdict ObservedStage::CheckShown(const SumCheck& check, const std::vector<int32_t>& own,
                                     const Payload& shown) const {
  const SumVerdict verdict = stage_->CheckShown(check, own, shown);
  return faults_->false_accusations ? SumVerdict::kFalse : verdict;
}

std::vector<Payload> ObservedStage::Wild(int64_t round, std::vector<Payload> messages) {
  if (faults_->wild.factor == 0 || !observer_.wild) {
    if (observer_.said) observer_.said(messages);
    return messages;
  }
  wild_.insert(round);
  return observer_.wild(round, messages, faults_->wild);
}

// In co2 what was done is thrown away at the boundary: its live weights count as if they were back
// at the base already.
ReplicaVectors ObservedStage::Vectors(bool restarted) const {
  if (!Checks()) return {};
  ReplicaVectors vectors = observer_.vectors();
  if (restarted) vectors.live = vectors.base;
  return vectors;
}

std::vector<float> ObservedStage::OwnOf(int64_t round) const {
  const std::vector<Payload>& own = own_.at(round);
  return stage_->pieces(round) > 0 ? observer_.decode_pieces(round, own)
                                   : observer_.decode(round, own.front());
}

// To encode takes nothing, but moves what the message leaves out between weights and residual. In
// co2 it takes the message.
void ObservedStage::Encoded(int64_t round, const ReplicaVectors& before) {
  if (observer_.encoded) observer_.encoded(round, steps_);
  if (!Checks()) return;
  const std::vector<float> taken =
      observer_.restarts ? OwnOf(round) : std::vector<float>(before.base.size());
  observer_.settled(round, ConservationError(before, Vectors(observer_.restarts), taken));
}

// What the round takes of this replica's own: its message if that is in it. In co2 that was taken
// when it was encoded, and comes back if it is not.
void ObservedStage::Landed(int64_t round, const ReplicaVectors& before, bool own_accepted) {
  if (observer_.applied && !catches_up_) observer_.applied(round, steps_);
  if (Checks()) {
    std::vector<float> taken(before.base.size());
    if (own_.contains(round) && own_accepted != observer_.restarts) {
      taken = OwnOf(round);
      if (observer_.restarts) {
        for (float& value : taken) value = -value;
      }
    }
    observer_.settled(round, ConservationError(before, Vectors(false), taken));
  }
  own_.erase(own_.begin(), own_.upper_bound(round));
  own_sums_.erase(own_sums_.begin(), own_sums_.upper_bound(round));
  if (wild_.erase(round) > 0) stage_->StartFromBase(steps_, round + 1);
}

absl::Status ObservedStage::ApplyRound(int64_t round, const std::vector<Accepted>& participants) {
  const ReplicaVectors before = Vectors(observer_.restarts);
  SKERRY_RETURN_IF_ERROR(ApplyHonest(round, participants));
  Landed(round, before,
         std::any_of(participants.begin(), participants.end(),
                     [&](const Accepted& p) { return p.own && !wild_.contains(round); }));
  return absl::OkStatus();
}

absl::Status ObservedStage::ApplySums(const Landing& landing) {
  const ReplicaVectors before = Vectors(observer_.restarts);
  const Landing honest = Honest(landing);
  LeftOverPieces left = LeftOver(landing.round);
  SKERRY_RETURN_IF_ERROR(stage_->ApplySums(honest));
  LeftOverPieces landed = LeftOver(landing.round);
  for (const int32_t piece : landing.own.pieces) {  // of the others nothing changes
    if (landed.contains(piece)) left[piece] = std::move(landed[piece]);
  }
  CheckLeftOver(landing.round, left, {});
  Landed(landing.round, before, honest.own_accepted);
  return absl::OkStatus();
}

LeftOverPieces ObservedStage::LeftOver(int64_t round) {
  if (!observer_.left_over || stage_->pieces(round) == 0) return {};
  LeftOverPieces left = observer_.left_over(round);
  for (const auto& [piece, values] : left) {
    for (const float value : values)
      largest_left_over_ = std::max(largest_left_over_, std::abs(value));
  }
  return left;
}

void ObservedStage::CheckLeftOver(int64_t round, const LeftOverPieces& before,
                                  const LeftOverPieces& added) {
  constexpr double kForgotten = 0x1p-20;  // as in localsgd/piece_reducer.h
  if (!observer_.left_over || !observer_.settled) return;
  const LeftOverPieces after = LeftOver(round);
  observer_.settled(round,
                    LeftOverError(before, after, added, kForgotten * double{largest_left_over_}));
}

std::vector<Piece> ObservedStage::HandOn(int64_t round, const std::vector<int32_t>& own) {
  const LeftOverPieces before = LeftOver(round);
  std::vector<Piece> pieces = stage_->HandOn(round, own);
  LeftOverPieces added;
  for (const Piece& piece : pieces) {
    if (!observer_.decode_left_over) break;
    added[piece.index] = observer_.decode_left_over(round, piece);
    for (float& value : added[piece.index]) value = -value;
  }
  CheckLeftOver(round, before, added);
  return pieces;
}

absl::Status ObservedStage::TakeOver(int64_t round, const std::vector<Piece>& pieces) {
  const LeftOverPieces before = LeftOver(round);
  SKERRY_RETURN_IF_ERROR(stage_->TakeOver(round, pieces));
  LeftOverPieces added;
  for (const Piece& piece : pieces) {
    if (observer_.decode_left_over) added[piece.index] = observer_.decode_left_over(round, piece);
  }
  CheckLeftOver(round, before, added);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ObservedStage::RestoreState(const Payload& saved) {
  SKERRY_ASSIGN_OR_RETURN(const int64_t version, stage_->RestoreState(saved));
  catches_up_ = true;
  CheckNothingIsLeftOver(version);
  return version;
}

absl::StatusOr<StageWork::JoinersState> ObservedStage::SaveForJoiners() {
  SKERRY_ASSIGN_OR_RETURN(JoinersState state, stage_->SaveForJoiners());
  const auto falsified = [](const Payload& honest) {
    Bytes bytes = *honest;
    if (!bytes.empty()) bytes.back() ^= 0x80;  // the sign of the last value
    return MakeHollowPayload(std::move(bytes), honest.size());
  };
  if (faults_->false_state) state.common = falsified(state.common);
  if (faults_->false_moments) state.moments = falsified(state.moments);
  return state;
}

absl::Status ObservedStage::RestoreJoined(const JoinersChunks& chunks) {
  const LeftOverPieces handed_on = LeftOver(chunks.version);
  SKERRY_RETURN_IF_ERROR(stage_->RestoreJoined(chunks));
  catches_up_ = true;
  if (has_begun_) {
    CheckNothingIsLeftOver(chunks.version);
  } else {  // who left may have handed on what it had left over before the state came
    CheckLeftOver(chunks.version, handed_on, {});
  }
  return absl::OkStatus();
}

void ObservedStage::StartFromBase(int64_t step, int64_t round) {
  const LeftOverPieces handed_over = LeftOver(round);
  stage_->StartFromBase(step, round);
  steps_ = step;
  catches_up_ = false;
  has_begun_ = true;
  CheckBeginning(round);
  CheckLeftOver(round, handed_over, {});
}

// Who begins at a version holds nothing that no round has taken: neither what another process had
// not sent, nor steps that are made again.
void ObservedStage::CheckBeginning(int64_t round) {
  if (!Checks()) return;
  const ReplicaVectors now = Vectors(false);
  const std::vector<float> nothing(now.base.size());
  observer_.settled(round, ConservationError({now.base, now.base, nothing}, now, nothing));
}

// Until it is handed some over, which may come before its first step.
void ObservedStage::CheckNothingIsLeftOver(int64_t round) {
  if (!observer_.settled) return;
  for (const auto& [piece, left] : LeftOver(round)) {
    observer_.settled(round, LeftOverError({}, {{piece, left}}, {}, 0));
  }
}

// The stage itself knows only what it encoded. A wild delta is to it as another's: what it moved
// itself is not accepted, and forgotten when the round has landed, or its passes would be wild too.
absl::Status ObservedStage::ApplyHonest(int64_t round, const std::vector<Accepted>& participants) {
  const bool is_wild = wild_.contains(round);
  std::vector<Accepted> honest = participants;
  for (Accepted& p : honest) {
    if (p.own && !is_wild) p.payload = own_.at(round).front();
    p.own = p.own && !is_wild;
  }
  return stage_->ApplyRound(round, honest);
}

}  // namespace skerry
