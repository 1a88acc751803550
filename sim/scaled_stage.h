// Real arithmetic on a tiny model in the place of a large one: what is computed is small and true,
// what it costs and what it sends is as large as the production model's.
//
// So convergence under churn, loss and delay is seen at the times and rates of the scenario.
// Payloads carry the small bytes and stand for the large size (common/bytes.h).
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/status.h"
#include "pipeline/exec/stage_work.h"
#include "sim/modelled_stage.h"

namespace skerry {

class ScaledStage final : public StageWork {
 public:
  // `computes` knows the small model, `costs` the large one.
  ScaledStage(std::unique_ptr<StageWork> computes, std::unique_ptr<ModelledStage> costs)
      : computes_(std::move(computes)), costs_(std::move(costs)) {}

  int64_t boundary_bytes() const override { return costs_->boundary_bytes(); }
  int32_t microbatch_tokens() const override { return costs_->microbatch_tokens(); }
  Duration Cost(WorkKind kind) const override { return costs_->Cost(kind); }
  int64_t HeldBytesPeak() const override { return computes_->HeldBytesPeak(); }

  WorkResult ForwardFirst(int64_t step, int32_t microbatch) override {
    return Outgoing(computes_->ForwardFirst(step, microbatch));
  }
  WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) override {
    return Outgoing(computes_->Forward(step, microbatch, in));
  }
  WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) override {
    return Outgoing(computes_->Loss(step, microbatch, in));
  }
  WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) override {
    return Outgoing(computes_->Backward(step, microbatch, d_out));
  }
  absl::StatusOr<Payload> EncodeBoundary(DeltaCodec codec, const Payload& values) const override {
    SKERRY_ASSIGN_OR_RETURN(const Payload small,
                            computes_->EncodeBoundary(codec, MakePayload(*values)));
    return MakeHollowPayload(*small, EncodedBoundaryBytes(codec));
  }
  absl::StatusOr<Payload> DecodeBoundary(DeltaCodec codec, const Payload& encoded) const override {
    SKERRY_ASSIGN_OR_RETURN(const Payload small,
                            computes_->DecodeBoundary(codec, MakePayload(*encoded)));
    return MakeHollowPayload(*small, boundary_bytes());
  }
  std::optional<float> SizeOfValues(const Payload& values) const override {
    return computes_->SizeOfValues(values ? MakePayload(*values) : values);
  }
  absl::StatusOr<Recomputed> Recompute(const Payload& in, const Payload& d_out) override {
    return computes_->Recompute(MakePayload(*in), MakePayload(*d_out));
  }
  void Accumulate(int64_t step, int32_t microbatch) override {
    computes_->Accumulate(step, microbatch);
  }
  void Discard(int64_t step, int32_t microbatch) override { computes_->Discard(step, microbatch); }
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override {
    return computes_->OptimizerStep(step, microbatches);
  }
  int64_t GradientValues() const override { return computes_->GradientValues(); }
  int64_t GradientValuesStoodFor() const override { return costs_->GradientValuesStoodFor(); }
  absl::Status TakeGradients(std::span<float> sums) override {
    return computes_->TakeGradients(sums);
  }
  std::vector<GradientPart> GradientParts() const override { return computes_->GradientParts(); }
  WorkResult RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                             size_t part) override {
    WorkResult made = computes_->RunBackwardPart(step, microbatch, d_out, part);
    return part + 1 < GradientParts().size() ? made : Outgoing(std::move(made));
  }
  absl::Status TakePart(size_t part, int64_t step, std::span<const int32_t> microbatches,
                        std::span<float> sums) override {
    return computes_->TakePart(part, step, microbatches, sums);
  }
  bool SumsParts() const override { return computes_->SumsParts(); }
  void SumPart(size_t part, int64_t step, std::span<const int32_t> microbatches) override {
    computes_->SumPart(part, step, microbatches);
  }
  absl::Status OptimizerStepOn(int64_t step, int32_t microbatches,
                               std::span<const float> sums) override {
    return computes_->OptimizerStepOn(step, microbatches, sums);
  }
  Digest LiveDigest() override { return computes_->LiveDigest(); }
  absl::StatusOr<Payload> EncodeDelta(int64_t round) override {
    SKERRY_ASSIGN_OR_RETURN(const Payload small, computes_->EncodeDelta(round));
    SKERRY_ASSIGN_OR_RETURN(const Payload large, costs_->EncodeDelta(round));
    return MakeHollowPayload(*small, std::max(large.size(), small.size()));
  }
  absl::Status ApplyRound(int64_t round, const std::vector<Accepted>& participants) override {
    return computes_->ApplyRound(round, participants);
  }
  absl::Status CheckDelta(int64_t round, const Payload& delta) const override {
    return computes_->CheckDelta(round, delta);
  }
  absl::StatusOr<DeltaStatistics> MeasureDelta() override { return computes_->MeasureDelta(); }
  // The table of the small model; the large one's messages take as many bits a value.
  absl::Status SetTable(int64_t first_round, const Bytes& table) override {
    SKERRY_RETURN_IF_ERROR(computes_->SetTable(first_round, table));
    return costs_->SetTable(first_round, table);
  }
  // The small model's pieces, each as large as so many of the large one's.
  int32_t pieces(int64_t round) const override { return computes_->pieces(round); }
  absl::StatusOr<std::vector<Payload>> EncodePieces(int64_t round) override {
    SKERRY_ASSIGN_OR_RETURN(const auto small, computes_->EncodePieces(round));
    return Enlarged(round, small, costs_->PiecesBytes(round));
  }
  absl::StatusOr<std::vector<Payload>> ReducePieces(
      const Reduction& reduction, std::vector<PieceState>* states) const override {
    SKERRY_ASSIGN_OR_RETURN(const auto small, computes_->ReducePieces(reduction, states));
    return Enlarged(reduction.round, small, costs_->SumsBytes(reduction.round));
  }
  absl::StatusOr<std::vector<Payload>> LeftOverBefore(const SumCheck& check) const override {
    SKERRY_ASSIGN_OR_RETURN(std::vector<Payload> left, computes_->LeftOverBefore(check));
    for (size_t i = 0; i < left.size(); ++i) {
      const int64_t large = costs_->LeftOverBytes(check.round, check.drawn[i]);
      left[i] = MakeHollowPayload(*left[i], std::max(left[i].size(), large));
    }
    return left;
  }
  SumVerdict CheckShown(const SumCheck& check, const std::vector<int32_t>& own,
                        const Payload& shown) const override {
    return computes_->CheckShown(check, own, shown);
  }
  absl::Status ApplySums(const Landing& landing) override { return computes_->ApplySums(landing); }
  absl::Status LandPart(const Landing& landing) override { return computes_->LandPart(landing); }
  std::vector<Piece> HandOn(int64_t round, const std::vector<int32_t>& own) override {
    std::vector<Piece> left = computes_->HandOn(round, own);
    for (Piece& piece : left) {
      piece.message = Enlarged(round, {piece.message}, costs_->SumsBytes(round)).front();
    }
    return left;
  }
  absl::Status CheckLeftOvers(int64_t round, const std::vector<Piece>& pieces) const override {
    return computes_->CheckLeftOvers(round, pieces);
  }
  absl::Status TakeOver(int64_t round, const std::vector<Piece>& pieces) override {
    return computes_->TakeOver(round, pieces);
  }
  std::vector<NodeId> Screened() const override { return computes_->Screened(); }
  absl::Status CheckPieces(int64_t round, const std::vector<Piece>& pieces) const override {
    return computes_->CheckPieces(round, pieces);
  }
  absl::Status CheckSums(int64_t round, const std::vector<Piece>& sums) const override {
    return computes_->CheckSums(round, sums);
  }
  void AdoptBase() override { computes_->AdoptBase(); }
  Digest BaseDigest() override { return computes_->BaseDigest(); }
  Payload BaseParameters() override { return computes_->BaseParameters(); }
  absl::StatusOr<Payload> SaveState() override {
    SKERRY_ASSIGN_OR_RETURN(const Payload small, computes_->SaveState());
    SKERRY_ASSIGN_OR_RETURN(const Payload large, costs_->SaveState());
    return MakeHollowPayload(*small, std::max(large.size(), small.size()));
  }
  absl::StatusOr<Payload> SaveLiveState(int64_t version) override {
    SKERRY_ASSIGN_OR_RETURN(const Payload small, computes_->SaveLiveState(version));
    SKERRY_ASSIGN_OR_RETURN(const Payload large, costs_->SaveLiveState(version));
    return MakeHollowPayload(*small, std::max(large.size(), small.size()));
  }
  absl::StatusOr<int64_t> RestoreState(const Payload& saved) override {
    return computes_->RestoreState(saved);
  }
  JoinersSizes SizesForJoiners() const override {
    const JoinersSizes small = computes_->SizesForJoiners(), large = costs_->SizesForJoiners();
    return {std::max(small.common, large.common), std::max(small.moments, large.moments)};
  }
  absl::StatusOr<JoinersState> SaveForJoiners() override {
    SKERRY_ASSIGN_OR_RETURN(JoinersState state, computes_->SaveForJoiners());
    const JoinersSizes sizes = SizesForJoiners();
    state.common = MakeHollowPayload(*state.common, sizes.common);
    state.moments = MakeHollowPayload(*state.moments, sizes.moments);
    return state;
  }
  absl::Status CheckMoments(int64_t chunk, std::span<const uint8_t> bytes) const override {
    return computes_->CheckMoments(chunk, bytes);
  }
  absl::Status RestoreJoined(const JoinersChunks& chunks) override {
    return computes_->RestoreJoined(chunks);
  }
  void StartFromBase(int64_t step, int64_t round) override {
    computes_->StartFromBase(step, round);
  }

 private:
  WorkResult Outgoing(WorkResult result) const {
    result.tokens = costs_->microbatch_tokens();
    if (result.values && !result.values->empty()) {
      result.values = MakeHollowPayload(*result.values, costs_->boundary_bytes());
    }
    return result;
  }

  // Each stands for its part of what all pieces take.
  std::vector<Payload> Enlarged(int64_t round, const std::vector<Payload>& small,
                                int64_t all_bytes) const {
    std::vector<Payload> large;
    for (const Payload& p : small) {
      large.push_back(MakeHollowPayload(*p, std::max(p.size(), all_bytes / pieces(round))));
    }
    return large;
  }

  std::unique_ptr<StageWork> computes_;
  std::unique_ptr<ModelledStage> costs_;
};

}  // namespace skerry
