// The real arithmetic of a stage: model/stage_team for the inner steps, localsgd/outer_fragments
// for the outer ones.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/payload_pool.h"
#include "common/peak.h"
#include "common/round_clock.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "localsgd/outer_fragments.h"
#include "localsgd/piece_reducer.h"
#include "model/stage_team.h"
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
  struct Device {
    std::unique_ptr<Backend> backend;
    double rate = 1;                          // TeamDevice
    std::unique_ptr<Backend> host = nullptr;  // where the optimizer's state is offloaded
    StashParking parking = {};                // of stashes that have no room on it
  };
  // On one device, or on several that are one replica (model/stage_team.h). `tokens` may be
  // nullptr unless `holds_ends`. ResourceExhausted if memory does not suffice, InvalidArgument if
  // the outer configuration is of no law (localsgd/outer_law.h).
  static absl::StatusOr<std::unique_ptr<StageWork>> Create(
      const RunConfig& config, const StageAssignment& stage, bool holds_ends,
      std::vector<Device> devices, std::unique_ptr<TokenSource> tokens,
      int32_t recomputed_layers = 0, DeviceSplit split = DeviceSplit::kSequences,
      int64_t least_part = kBackwardPartMin);
  static absl::StatusOr<std::unique_ptr<StageWork>> Create(
      const RunConfig& config, const StageAssignment& stage, bool holds_ends,
      std::unique_ptr<Backend> backend, std::unique_ptr<TokenSource> tokens,
      int32_t recomputed_layers = 0, int64_t least_part = kBackwardPartMin);

  int64_t boundary_bytes() const override { return 4 * floats_; }
  int32_t microbatch_tokens() const override { return tokens_per_microbatch_; }
  Duration Cost(WorkKind kind) const override;
  int64_t HeldBytesPeak() const override { return held_peak_.most(); }

  WorkResult ForwardFirst(int64_t step, int32_t microbatch) override;
  WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) override;
  WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) override;
  absl::StatusOr<Recomputed> Recompute(const Payload& in, const Payload& d_out) override;
  void Accumulate(int64_t step, int32_t microbatch) override;
  void Discard(int64_t step, int32_t microbatch) override;
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override;
  int64_t GradientValues() const override { return parameters(); }
  absl::Status TakeGradients(std::span<float> sums) override;
  std::vector<GradientPart> GradientParts() const override;
  WorkResult RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                             size_t part) override;
  absl::Status TakePart(size_t part, int64_t step, std::span<const int32_t> microbatches,
                        std::span<float> sums) override;
  bool SumsParts() const override { return trainer_->SumsParts(); }
  void SumPart(size_t part, int64_t step, std::span<const int32_t> microbatches) override;
  absl::Status OptimizerStepOn(int64_t step, int32_t microbatches,
                               std::span<const float> sums) override;
  Digest LiveDigest() override;
  absl::StatusOr<Payload> EncodeDelta(int64_t round) override;
  absl::Status ApplyRound(int64_t round, const std::vector<Accepted>& participants) override;
  absl::Status CheckDelta(int64_t round, const Payload& delta) const override;
  absl::StatusOr<DeltaStatistics> MeasureDelta() override;
  absl::Status SetTable(int64_t first_round, const Bytes& table) override;
  int32_t pieces(int64_t round) const override;
  absl::StatusOr<std::vector<Payload>> EncodePieces(int64_t round) override;
  absl::StatusOr<std::vector<Payload>> ReducePieces(const Reduction& reduction,
                                                    std::vector<PieceState>* states) const override;
  absl::StatusOr<std::vector<Payload>> LeftOverBefore(const SumCheck& check) const override;
  SumVerdict CheckShown(const SumCheck& check, const std::vector<int32_t>& own,
                        const Payload& shown) const override;
  absl::Status ApplySums(const Landing& landing) override;
  absl::Status LandPart(const Landing& landing) override;
  std::vector<Piece> HandOn(int64_t round, const std::vector<int32_t>& own) override;
  absl::Status CheckLeftOvers(int64_t round, const std::vector<Piece>& pieces) const override;
  absl::Status TakeOver(int64_t round, const std::vector<Piece>& pieces) override;
  std::vector<NodeId> Screened() const override { return screened_; }
  absl::Status CheckPieces(int64_t round, const std::vector<Piece>& pieces) const override;
  absl::Status CheckSums(int64_t round, const std::vector<Piece>& sums) const override;
  void AdoptBase() override;
  Digest BaseDigest() override;
  Payload BaseParameters() override;
  absl::StatusOr<Payload> SaveState() override;
  absl::StatusOr<Payload> SaveLiveState(int64_t version) override;
  absl::StatusOr<int64_t> RestoreState(const Payload& saved) override;
  JoinersSizes SizesForJoiners() const override;
  absl::StatusOr<JoinersState> SaveForJoiners() override;
  absl::Status CheckMoments(int64_t chunk, std::span<const uint8_t> bytes) const override;
  absl::Status RestoreJoined(const JoinersChunks& chunks) override;
  void StartFromBase(int64_t step, int64_t round) override;

  // For checkers, on the device thread. What was sent in a round is decoded to [n], zero where the
  // round does not concern the stage.
  const OuterFragments& fragments() const { return *fragments_; }
  // Values of a round's message, or of a piece of it, and what it is of.
  int64_t MessageValues(int64_t round, int32_t piece) const;
  std::shared_ptr<const Codec> CodecOf(int64_t round, int32_t piece) const;
  std::shared_ptr<const Codec> DownCodecOf(int64_t round, int32_t piece) const;
  std::vector<float> DecodeDelta(int64_t round, const Payload& delta) const;
  std::vector<float> DecodePieces(int64_t round, const std::vector<Payload>& own_pieces) const;
  std::vector<float> LiveParameters();
  PieceReducer ReducerOf(int64_t round) const;  // a copy
  // Of what a round concerns, by piece: what this reducer has left over; what a message hands on.
  std::map<int32_t, std::vector<float>> LeftOver(int64_t round) const;
  std::vector<float> DecodeLeftOver(int64_t round, const Piece& piece) const;

 private:
  TrainedStage(const RunConfig& config, std::vector<Device> devices,
               std::unique_ptr<TokenSource> tokens);
  WorkResult Result(absl::Status status, Bytes values);
  Bytes RoomForStream();
  absl::Status StartRounds(const StageAssignment& stage);
  int64_t parameters() const { return trainer_->layout().size(); }
  std::vector<int64_t> BlockSizes() const;
  const CodecBook& BookOf(int64_t round) const;
  absl::Status CheckIndex(int64_t round, const Piece& piece) const;
  std::span<float> PartOf(int64_t round, std::span<float> whole) const;
  // base, momentum [n], of that version: the live parameters are the base, nothing is under way.
  void TakeBase(int64_t version, std::span<const float> base, std::span<const float> momentum);
  // Takes the peak of what is held now and `transient` bytes.
  void NoteHeld(int64_t transient = 0);

  RunConfig config_;
  bool holds_ends_ = false;
  int32_t tokens_per_microbatch_ = 0;
  int64_t floats_ = 0;           // of a boundary tensor
  std::vector<Device> devices_;  // outlive the trainer
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<StageTeam> trainer_;
  std::optional<MicrobatchKey> half_back_;  // whose backward pass is between two parts
  RoundClock clock_;
  OuterLaw law_;
  // Of each fragment: what it is of the stage, its cut (piece 0: rounds are not sharded), its
  // codecs, its reducer (of sharded rounds), the digest of its base (nullopt: it has changed
  // since).
  std::vector<FragmentRange> ranges_;
  std::vector<PieceCut> cuts_;
  std::vector<std::shared_ptr<CodecBook>> books_;
  std::vector<PieceReducer> reducers_;
  std::vector<std::optional<Digest>> digests_;
  int64_t sharded_over_ = 0;  // replicas; 0: rounds are not sharded
  std::unique_ptr<OuterFragments> fragments_;
  std::vector<int32_t> inputs_, targets_;
  PayloadPool streams_;           // what passes send on
  int64_t first_round_ = 0;       // co2: at its boundary no step is due yet
  std::vector<NodeId> screened_;  // of the round that landed last
  Peak held_peak_;                // raised by the device thread
};

}  // namespace skerry
