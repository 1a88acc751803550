// A stage without arithmetic: sizes and costs of the production model, so that thousands of nodes
// run in virtual time.
//
// Payloads are hollow (common/bytes.h): they stand for what training would send and hold 8 bytes, a
// fingerprint of everything that went into them. So the digests of deltas and bases still prove
// what they prove with real numbers: replicas that took part in the same rounds agree, and one that
// counted a microbatch twice, or a poisoned message, does not.
//
// Costs: floating-point work of routing/cost_model.h over the device's rate; optimizer, encoding
// and rounds by the bytes they touch over its memory bandwidth.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/round_clock.h"
#include "common/run_config.h"
#include "localsgd/piece_cut.h"
#include "pipeline/exec/stage_work.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct ModelledDevice {
  double gflops = 10;  // of the run's arithmetic, sustained
  double memory_bytes_per_s = 2e10;
};

// What a node puts off for want of memory (pipeline/plan/node_memory.h).
struct ModelledThrift {
  int32_t recomputed_layers = 0;
  bool offloads = false;
  double waits = 0;  // for parked stashes, a microbatch: forward passes
};

class ModelledStage final : public StageWork {
 public:
  // `device` is shared with whoever slows it down or poisons it during the run.
  ModelledStage(const RunConfig& config, const StageAssignment& stage, bool holds_ends,
                std::shared_ptr<const ModelledDevice> device, const ModelledThrift& thrift = {});

  int64_t boundary_bytes() const override { return boundary_bytes_; }
  int32_t microbatch_tokens() const override { return tokens_; }
  Duration Cost(WorkKind kind) const override;

  WorkResult ForwardFirst(int64_t step, int32_t microbatch) override;
  WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) override;
  absl::StatusOr<Recomputed> Recompute(const Payload& in, const Payload& d_out) override {
    return Recomputed{in, d_out};
  }
  void Accumulate(int64_t step, int32_t microbatch) override;
  void Discard(int64_t, int32_t) override {}
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override;
  // The fingerprint of what was accumulated, a byte a value: sums of those are sums of these. The
  // rest is there to be cut into pieces, as a real sum is.
  int64_t GradientValues() const override { return kGradientValues; }
  int64_t GradientValuesStoodFor() const override { return parameters_; }
  absl::Status TakeGradients(std::span<float> sums) override;
  std::vector<GradientPart> GradientParts() const override { return gradient_parts_; }
  WorkResult RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                             size_t) override {
    return Backward(step, microbatch, d_out);
  }
  absl::Status TakePart(size_t part, int64_t step, std::span<const int32_t> microbatches,
                        std::span<float> sums) override;
  absl::Status OptimizerStepOn(int64_t step, int32_t microbatches,
                               std::span<const float> sums) override;
  Digest LiveDigest() override;
  absl::StatusOr<Payload> EncodeDelta(int64_t round) override;
  absl::Status ApplyRound(int64_t round, const std::vector<Accepted>& participants) override;
  absl::Status CheckDelta(int64_t round, const Payload& delta) const override;
  // Made up: errors by the codec's bits and what is in the weights, so that tables change.
  absl::StatusOr<DeltaStatistics> MeasureDelta() override;
  // Messages of a table carry its fingerprint, so that one of another table is found out.
  absl::Status SetTable(int64_t first_round, const Bytes& table) override;
  int32_t pieces(int64_t round) const override;
  absl::StatusOr<std::vector<Payload>> EncodePieces(int64_t round) override;
  absl::StatusOr<std::vector<Payload>> ReducePieces(const Reduction& reduction,
                                                    std::vector<PieceState>* states) const override;
  // Stands for what is there; nobody lies without arithmetic.
  absl::StatusOr<std::vector<Payload>> LeftOverBefore(const SumCheck& check) const override;
  SumVerdict CheckShown(const SumCheck& check, const std::vector<int32_t>&,
                        const Payload& shown) const override {
    return FollowSum(check, shown);
  }
  // For the coordinator, too: true of whatever is shown in the right form.
  static SumVerdict FollowSum(const SumCheck& check, const Payload& shown);
  absl::Status ApplySums(const Landing& landing) override;
  absl::Status LandPart(const Landing&) override { return absl::OkStatus(); }
  // Of a piece that it does not sum any more a reducer hands on one message that stands for all.
  std::vector<Piece> HandOn(int64_t round, const std::vector<int32_t>& own) override;
  absl::Status CheckLeftOvers(int64_t, const std::vector<Piece>&) const override {
    return absl::OkStatus();
  }
  absl::Status TakeOver(int64_t, const std::vector<Piece>&) override { return absl::OkStatus(); }
  absl::Status CheckPieces(int64_t round, const std::vector<Piece>& pieces) const override;
  absl::Status CheckSums(int64_t round, const std::vector<Piece>& sums) const override;
  // What the messages, or the sums, of all pieces of a round take.
  int64_t PiecesBytes(int64_t round) const;
  int64_t SumsBytes(int64_t round) const;
  int64_t LeftOverBytes(int64_t round, int32_t piece) const;
  void AdoptBase() override { base_ = theta_; }
  absl::StatusOr<Payload> SaveState() override;
  absl::StatusOr<Payload> SaveLiveState(int64_t version) override;
  absl::StatusOr<int64_t> RestoreState(const Payload& saved) override;
  JoinersSizes SizesForJoiners() const override;
  absl::StatusOr<JoinersState> SaveForJoiners() override;
  absl::Status RestoreJoined(const JoinersChunks& chunks) override;
  // What CheckpointArchive makes of saved states where the plan is another now.
  static absl::StatusOr<Bytes> Recut(const std::vector<Bytes>& states, const StageAssignment& stage,
                                     int64_t round);
  void StartFromBase(int64_t, int64_t round) override {
    theta_ = stepped_ = base_;
    if (round == version_) first_round_ = round;
  }
  Digest BaseDigest() override;
  Payload BaseParameters() override;

 private:
  static constexpr int64_t kGradientValues = 128;
  struct Table {
    uint64_t fingerprint = 0;  // 0: one codec for all
    double bits = 0;           // of a parameter
  };
  // Of the round's messages, of its sums.
  Table TableOf(int64_t round) const;
  Table DownTableOf(int64_t round) const;
  static Bytes MessageOf(uint64_t value, const Table& table);
  static bool IsMessageOf(const Payload& payload, const Table& table);
  int64_t DeltaSize(int64_t round, const Table& table) const;
  WorkResult Boundary(uint64_t fingerprint) const;
  static int64_t EncodedBytes(const PieceCut& cut, int32_t piece, const Table& table);
  uint64_t SumOf(const Reduction& reduction, size_t index) const;
  const PieceCut& CutOf(int64_t round) const;
  void Restart();
  Payload State(uint64_t base, int64_t at) const;
  static std::vector<GradientPart> PartsOfSum(const RunConfig& config, const StageAssignment& stage,
                                              bool holds_ends);

  std::shared_ptr<const ModelledDevice> device_;
  double forward_flops_ = 0, backward_flops_ = 0, loss_flops_ = 0, optimizer_flops_ = 0;
  double host_step_s_ = 0;  // of each parameter
  int64_t parameters_ = 0;
  std::vector<GradientPart> gradient_parts_;
  int64_t boundary_bytes_ = 0;
  int32_t tokens_ = 0;
  RoundClock clock_;
  std::vector<int64_t> sizes_;          // parameters by fragment, as the next
  std::vector<PieceCut> cuts_;          // piece 0: rounds are not sharded
  double up_bits_ = 0, down_bits_ = 0;  // of a parameter, without a table
  std::vector<int64_t> parts_;          // of tables
  std::vector<DeltaCodec> codecs_;      // in them
  bool down_follows_ = false;           // sums are of their round's table
  std::map<int64_t, Table> tables_;     // by first round
  // What the reducer has not sent of its pieces yet; a fingerprint of all it ever summed.
  std::vector<std::map<int32_t, uint64_t>> residuals_;  // by fragment
  std::vector<std::set<int32_t>> left_over_;            // by fragment: pieces that it summed
  uint64_t base_ = 0;                                   // fingerprint of the base parameters
  uint64_t theta_ = 0;                                  // of the live ones
  uint64_t stepped_ = 0;      // the live ones before anything was accumulated
  uint64_t gradients_ = 0;    // of what is accumulated; the order does not matter
  bool sums_ = false;         // of a cohort: theta_ changes with steps only
  std::vector<float> given_;  // by TakePart
  int64_t version_ = 0;       // completed rounds
  int64_t first_round_ = 0;   // co2: no step is due at its boundary
};

}  // namespace skerry
