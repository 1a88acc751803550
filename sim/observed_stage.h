// A stage whose doings are seen, and can be falsified: wraps any StageWork (real or modelled), so
// that checkers and faults are the same in both.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "pipeline/exec/stage_work.h"
#include "sim/conservation.h"
#include "sim/wild_delta.h"

namespace skerry {

// What a test of the protocol may do to a node's arithmetic, while the run goes on.
struct StageFaults {
  double slow = 1;                 // costs are multiplied
  double wrong_results = 0;        // share of activations and gradients falsified on their way out
  bool poisoned_deltas = false;    // a few bits of every delta are wrong
  WildDelta wild;                  // what every delta is instead
  WildDelta false_sums;            // what every sum that it makes for others is instead
  bool covers_up = false;          // and what it says that it has left over follows from those
  bool unsigned_words = false;     // its statements of sums carry another's signature
  bool false_accusations = false;  // it says of every sum that it checks that it is false
  bool passes_on = false;          // what came is sent on as if it had worked on it
  double scaled = 1;               // activations and gradients are multiplied on their way out
  bool out_of_memory = false;      // the device has none left for a microbatch
  bool void_deltas = false;    // every delta is no message of its codec: not finite, out of range
  bool void_sums = false;      // likewise every sum of a sharded round
  bool false_state = false;    // a joiner is given another outer momentum than the stage's
  bool false_moments = false;  // and moments that no optimizer makes
};

class ObservedStage final : public StageWork {
 public:
  struct Observer {
    std::function<void(int64_t step, int32_t microbatch)> accumulated;
    std::function<void(int64_t step, int32_t microbatches)> stepped;
    // Of a cohort: on the sums of all its members; the digest of the weights after it.
    std::function<void(int64_t step, const Digest& weights)> stepped_together;
    // `step` inner steps were complete. A joiner that catches up lands rounds at no step: nothing
    // is said of those.
    std::function<void(int64_t round, int64_t step)> encoded, applied;
    // Where there is arithmetic: the law of conservation, in units of what rounding may do.
    std::function<ReplicaVectors()> vectors;
    std::function<std::vector<float>(int64_t round, const Payload& delta)> decode;
    std::function<std::vector<float>(int64_t round, const std::vector<Payload>& pieces)>
        decode_pieces;
    std::function<void(int64_t round, double error)> settled;
    // Of what the round concerns: what the reducer has left over, and what a message hands on.
    std::function<LeftOverPieces(int64_t round)> left_over;
    std::function<std::vector<float>(int64_t round, const Piece&)> decode_left_over;
    bool restarts = false;  // co2: a message is settled when it is encoded
    // An honest delta, or its pieces, as it is sent.
    std::function<void(const std::vector<Payload>&)> said;
    // Falsifies a delta, or its pieces, as a message of the codec: StageFaults::wild.
    std::function<std::vector<Payload>(int64_t round, const std::vector<Payload>&,
                                       const WildDelta&)>
        wild;
    // The same of the sums of these pieces: StageFaults::false_sums.
    std::function<std::vector<Payload>(const Reduction&, const std::vector<Payload>&,
                                       const StageFaults&, std::vector<PieceState>*)>
        false_sums;
    // A forward, loss or backward pass was computed; the job that did it ends next.
    std::function<void(int64_t step, int32_t microbatch)> worked;
  };
  // `faults` is shared with whoever sets them.
  ObservedStage(std::unique_ptr<StageWork> stage, Observer observer,
                std::shared_ptr<const StageFaults> faults);

  int64_t boundary_bytes() const override { return stage_->boundary_bytes(); }
  int32_t microbatch_tokens() const override { return stage_->microbatch_tokens(); }
  Duration Cost(WorkKind kind) const override;
  int64_t HeldBytesPeak() const override { return stage_->HeldBytesPeak(); }
  WorkResult ForwardFirst(int64_t step, int32_t microbatch) override;
  WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) override;
  absl::StatusOr<Payload> EncodeBoundary(DeltaCodec codec, const Payload& values) const override {
    return stage_->EncodeBoundary(codec, values);
  }
  absl::StatusOr<Payload> DecodeBoundary(DeltaCodec codec, const Payload& encoded) const override {
    return stage_->DecodeBoundary(codec, encoded);
  }
  std::optional<float> SizeOfValues(const Payload& values) const override {
    return stage_->SizeOfValues(values);
  }
  absl::StatusOr<Recomputed> Recompute(const Payload& in, const Payload& d_out) override {
    return stage_->Recompute(in, d_out);
  }
  void Accumulate(int64_t step, int32_t microbatch) override;
  void Discard(int64_t step, int32_t microbatch) override { stage_->Discard(step, microbatch); }
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override;
  int64_t GradientValues() const override { return stage_->GradientValues(); }
  int64_t GradientValuesStoodFor() const override { return stage_->GradientValuesStoodFor(); }
  absl::Status TakeGradients(std::span<float> sums) override { return stage_->TakeGradients(sums); }
  std::vector<GradientPart> GradientParts() const override { return stage_->GradientParts(); }
  WorkResult RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                             size_t part) override;
  absl::Status TakePart(size_t part, int64_t step, std::span<const int32_t> microbatches,
                        std::span<float> sums) override;
  bool SumsParts() const override { return stage_->SumsParts(); }
  void SumPart(size_t part, int64_t step, std::span<const int32_t> microbatches) override;
  absl::Status OptimizerStepOn(int64_t step, int32_t microbatches,
                               std::span<const float> sums) override;
  Digest LiveDigest() override { return stage_->LiveDigest(); }
  absl::StatusOr<Payload> EncodeDelta(int64_t round) override;
  absl::Status ApplyRound(int64_t round, const std::vector<Accepted>& participants) override;
  absl::Status CheckDelta(int64_t round, const Payload& delta) const override {
    return stage_->CheckDelta(round, delta);
  }
  absl::StatusOr<DeltaStatistics> MeasureDelta() override;
  absl::Status SetTable(int64_t first_round, const Bytes& table) override {
    return stage_->SetTable(first_round, table);
  }
  int32_t pieces(int64_t round) const override { return stage_->pieces(round); }
  absl::StatusOr<std::vector<Payload>> EncodePieces(int64_t round) override;
  absl::StatusOr<std::vector<Payload>> ReducePieces(const Reduction& reduction,
                                                    std::vector<PieceState>* states) const override;
  absl::StatusOr<std::vector<Payload>> LeftOverBefore(const SumCheck& check) const override {
    return stage_->LeftOverBefore(check);
  }
  SumVerdict CheckShown(const SumCheck& check, const std::vector<int32_t>& own,
                        const Payload& shown) const override;
  absl::Status ApplySums(const Landing& landing) override;
  std::vector<NodeId> Screened() const override { return stage_->Screened(); }
  absl::Status LandPart(const Landing& landing) override {
    return stage_->LandPart(Honest(landing));
  }
  std::vector<Piece> HandOn(int64_t round, const std::vector<int32_t>& own) override;
  absl::Status CheckLeftOvers(int64_t round, const std::vector<Piece>& pieces) const override {
    return stage_->CheckLeftOvers(round, pieces);
  }
  absl::Status TakeOver(int64_t round, const std::vector<Piece>& pieces) override;
  absl::Status CheckPieces(int64_t round, const std::vector<Piece>& pieces) const override {
    return stage_->CheckPieces(round, pieces);
  }
  absl::Status CheckSums(int64_t round, const std::vector<Piece>& sums) const override {
    return stage_->CheckSums(round, sums);
  }
  void AdoptBase() override { stage_->AdoptBase(); }
  Digest BaseDigest() override { return stage_->BaseDigest(); }
  Payload BaseParameters() override { return stage_->BaseParameters(); }
  absl::StatusOr<Payload> SaveState() override { return stage_->SaveState(); }
  absl::StatusOr<Payload> SaveLiveState(int64_t version) override {
    return stage_->SaveLiveState(version);
  }
  absl::StatusOr<int64_t> RestoreState(const Payload& saved) override;
  JoinersSizes SizesForJoiners() const override { return stage_->SizesForJoiners(); }
  absl::StatusOr<JoinersState> SaveForJoiners() override;
  absl::Status CheckMoments(int64_t chunk, std::span<const uint8_t> bytes) const override {
    return stage_->CheckMoments(chunk, bytes);
  }
  absl::Status RestoreJoined(const JoinersChunks& chunks) override;
  void StartFromBase(int64_t step, int64_t round) override;

 private:
  static WorkResult OutOfMemory();
  WorkResult Outgoing(int64_t step, int32_t microbatch, WorkResult result,
                      const Payload* in = nullptr) const;

  std::unique_ptr<StageWork> stage_;
  Observer observer_;
  std::shared_ptr<const StageFaults> faults_;
  absl::Status ApplyHonest(int64_t round, const std::vector<Accepted>& participants);
  Landing Honest(const Landing& landing) const;
  bool Checks() const { return observer_.vectors && observer_.settled; }
  ReplicaVectors Vectors(bool restarted) const;
  std::vector<float> OwnOf(int64_t round) const;
  void Encoded(int64_t round, const ReplicaVectors& before);
  LeftOverPieces LeftOver(int64_t round);
  void CheckLeftOver(int64_t round, const LeftOverPieces& before, const LeftOverPieces& added);
  void Landed(int64_t round, const ReplicaVectors& before, bool own_accepted);
  void CheckBeginning(int64_t round);
  void CheckNothingIsLeftOver(int64_t round);

  std::vector<Payload> Wild(int64_t round, std::vector<Payload> messages);

  // Own deltas in flight, honest: whole, or in pieces; and which of them were sent wild.
  std::map<int64_t, std::vector<Payload>> own_;
  std::set<int64_t> wild_;
  mutable std::map<int64_t, std::map<int32_t, Payload>> own_sums_;  // of those sent falsified
  float largest_left_over_ = 0;
  bool catches_up_ = false;
  bool has_begun_ = false;  // has trained since it was made
  int64_t steps_ = 0;
};

}  // namespace skerry
