// The real arithmetic of a stage: model/stage_trainer for the inner steps, localsgd/replica for the
// outer ones.
#pragma once

#include <memory>
#include <vector>

#include "common/peak.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "localsgd/piece_reducer.h"
#include "localsgd/replica.h"
#include "model/stage_trainer.h"
#include "pipeline/exec/stage_work.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// Where stage 0 reads tokens. Bodies: token shards (node/shard_directory), made-up text (tests).
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // tokens, targets [sequences · context]: the microbatch addressed by (run seed, step,
  // microbatch).
  virtual absl::Status Read(int64_t step, int32_t microbatch, std::span<int32_t> tokens,
                            std::span<int32_t> targets) = 0;
};

class TrainedStage final : public StageWork {
 public:
  // `tokens` may be nullptr unless `holds_ends`. Owns the backend. ResourceExhausted if memory does
  // not suffice.
  static absl::StatusOr<std::unique_ptr<StageWork>> Create(const RunConfig& config,
                                                           const StageAssignment& stage,
                                                           bool holds_ends,
                                                           std::unique_ptr<Backend> backend,
                                                           std::unique_ptr<TokenSource> tokens);

  int64_t boundary_bytes() const override { return 4 * floats_; }
  int32_t microbatch_tokens() const override { return tokens_per_microbatch_; }
  Duration Cost(WorkKind kind) const override;
  int64_t HeldBytesPeak() const override { return held_peak_.most(); }

  WorkResult ForwardFirst(int64_t step, int32_t microbatch) override;
  WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) override;
  void Accumulate(int64_t step, int32_t microbatch) override;
  void Discard(int64_t step, int32_t microbatch) override;
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override;
  absl::StatusOr<Payload> EncodeDelta(int64_t round) override;
  absl::Status ApplyRound(int64_t round, const std::vector<Accepted>& participants) override;
  absl::Status CheckDelta(int64_t round, const Payload& delta) const override;
  absl::StatusOr<DeltaStatistics> MeasureDelta() override;
  absl::Status SetTable(int64_t first_round, const Bytes& table) override;
  int32_t pieces(int64_t) const override { return cut_.piece > 0 ? cut_.count() : 0; }
  absl::StatusOr<std::vector<Payload>> EncodePieces(int64_t round) override;
  absl::StatusOr<std::vector<Payload>> ReducePieces(const Reduction& reduction) const override;
  absl::Status ApplySums(const Landing& landing) override;
  absl::Status CheckPieces(int64_t round, const std::vector<Piece>& pieces) const override;
  absl::Status CheckSums(int64_t round, const std::vector<Piece>& sums) const override;
  void AdoptBase() override;
  Digest BaseDigest() override;
  Payload BaseParameters() override;
  absl::StatusOr<Payload> SaveState() override;
  absl::StatusOr<int64_t> RestoreState(const Payload& saved) override;
  void StartFromBase(int64_t step, int64_t round) override;

  // For checkers, on the device thread.
  const OuterReplica& replica() const { return *replica_; }
  std::vector<float> DecodeDelta(int64_t round, const Payload& delta) const;
  std::vector<float> DecodePieces(int64_t round, const std::vector<Payload>& own_pieces) const;
  std::vector<float> LiveParameters();

 private:
  TrainedStage(const RunConfig& config, std::unique_ptr<Backend> backend,
               std::unique_ptr<TokenSource> tokens);
  WorkResult Result(absl::Status status, Bytes values);
  OuterReplicaOptions ReplicaOptions() const;
  absl::Status CheckIndex(const Piece& piece) const;
  // Takes the peak of what is held now and `transient` bytes.
  void NoteHeld(int64_t transient = 0);

  RunConfig config_;
  bool holds_ends_ = false;
  int32_t tokens_per_microbatch_ = 0;
  int64_t floats_ = 0;                // of a boundary tensor
  std::unique_ptr<Backend> backend_;  // outlives the trainer
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<StageTrainer> trainer_;
  PieceCut cut_;  // piece 0: rounds are not sharded
  std::shared_ptr<CodecBook> codecs_;
  std::unique_ptr<OuterReplica> replica_;
  std::unique_ptr<PieceReducer> reducer_;  // of sharded rounds
  std::vector<float> theta_;  // host copy of the live parameters, between rounds' steps
  std::vector<int32_t> inputs_, targets_;
  Peak held_peak_;  // raised by the device thread
};

}  // namespace skerry
