// A stage whose doings are seen, and can be falsified: wraps any StageWork (real or modelled), so
// that checkers and faults are the same in both.
#pragma once

#include <functional>
#include <memory>

#include "pipeline/exec/stage_work.h"
#include "sim/conservation.h"

namespace skerry {

// What a test of the protocol may do to a node's arithmetic, while the run goes on.
struct StageFaults {
  double slow = 1;               // costs are multiplied
  double wrong_results = 0;      // share of activations and gradients falsified on their way out
  bool poisoned_deltas = false;  // a few bits of every delta are wrong
  bool void_deltas = false;      // every delta is no message of its codec: not finite, out of range
};

class ObservedStage final : public StageWork {
 public:
  struct Observer {
    std::function<void(int64_t step, int32_t microbatch)> accumulated;
    std::function<void(int64_t step, int32_t microbatches)> stepped;
    // Rounds count from 0 in a process's life, or from what a joiner was given; `step` inner steps
    // were complete. A joiner that catches up lands rounds at no step: nothing is said of those.
    std::function<void(int64_t round, int64_t step)> encoded, applied;
    // Where there is arithmetic: the law of conservation, in units of what rounding may do.
    std::function<ReplicaVectors()> vectors;
    std::function<std::vector<float>(const Payload& delta, int64_t round)> decode;
    std::function<std::vector<float>(const std::vector<Payload>& pieces, int64_t round)>
        decode_pieces;
    std::function<void(int64_t round, double error)> settled;
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
  void Accumulate(int64_t step, int32_t microbatch) override;
  void Discard(int64_t step, int32_t microbatch) override { stage_->Discard(step, microbatch); }
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override;
  absl::StatusOr<Payload> EncodeDelta() override;
  absl::Status ApplyRound(const std::vector<Accepted>& participants) override;
  absl::Status CheckDelta(const Payload& delta, int64_t round) const override {
    return stage_->CheckDelta(delta, round);
  }
  absl::StatusOr<DeltaStatistics> MeasureDelta() override;
  absl::Status SetTable(int64_t first_round, const Bytes& table) override {
    return stage_->SetTable(first_round, table);
  }
  int32_t pieces() const override { return stage_->pieces(); }
  absl::StatusOr<std::vector<Payload>> EncodePieces() override;
  absl::StatusOr<std::vector<Payload>> ReducePieces(const Reduction& reduction) const override {
    return stage_->ReducePieces(reduction);
  }
  absl::Status ApplySums(const Landing& landing) override;
  absl::Status CheckPieces(const std::vector<Piece>& pieces, int64_t round) const override {
    return stage_->CheckPieces(pieces, round);
  }
  absl::Status CheckSums(const std::vector<Piece>& sums, int64_t round) const override {
    return stage_->CheckSums(sums, round);
  }
  void AdoptBase() override { stage_->AdoptBase(); }
  Digest BaseDigest() override { return stage_->BaseDigest(); }
  Payload BaseParameters() override { return stage_->BaseParameters(); }
  absl::StatusOr<Payload> SaveState() override { return stage_->SaveState(); }
  absl::StatusOr<int64_t> RestoreState(const Payload& saved) override;
  void StartFromBase(int64_t step, int64_t round) override;

 private:
  WorkResult Outgoing(int64_t step, int32_t microbatch, WorkResult result) const;

  std::unique_ptr<StageWork> stage_;
  Observer observer_;
  std::shared_ptr<const StageFaults> faults_;
  absl::Status ApplyHonest(const std::vector<Accepted>& participants);
  ReplicaVectors VectorsBefore() const;
  void Landed(const ReplicaVectors& before, const std::function<std::vector<float>()>& taken);

  Payload honest_;                   // the delta behind a poisoned one
  std::vector<Payload> own_pieces_;  // of the pending delta, honest
  bool catches_up_ = false;
  int64_t steps_ = 0, encoded_ = 0, applied_ = 0;
};

}  // namespace skerry
