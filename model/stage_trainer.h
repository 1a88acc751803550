// A stage of the model in training: forward and backward of microbatches that come in any order,
// gradients that do not care about it, and the inner optimizer.
//
// Every microbatch's gradient is computed from zero in an arena of its own and added to the step's
// accumulator on Accumulate. So the bits depend on the order of Accumulate calls only (callers keep
// it by microbatch), not on when messages arrive, and not on how layers are split into stages.
//
// Life of a microbatch:  stage 0:     ForwardFirst → Loss → Backward → Accumulate
//                        the others:  Forward → Backward → Accumulate
// Discard ends it anywhere. The stash lives until Backward, the gradient until Accumulate.
//
// T tokens of a microbatch = sequences_per_microbatch · context; d hidden. Spans are host memory.
// Where the stage is the whole model the residual stream and its gradient stay on the backend, in
// the microbatch's stash, and every span [T, d] may be empty; one that is given is read or filled.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/backward_parts.h"
#include "model/buffer_pool.h"
#include "model/head.h"
#include "model/parameter_layout.h"
#include "model/stage_optimizer.h"
#include "model/stash_pool.h"
#include "model/transformer_block.h"
#include "model/weight_store.h"

namespace skerry {

struct MicrobatchKey {
  int64_t step = 0;
  int32_t microbatch = 0;
  auto operator<=>(const MicrobatchKey&) const = default;
};

// What of a stage's training is one device's where several share it (model/stage_team.h): some of a
// microbatch's sequences, or of every layer a part of its tensors.
struct DeviceShare {
  int32_t of_sequences = 0;        // of a microbatch; config.pipeline says how many are its own
  std::optional<GroupPart> steps;  // of the parameters: what its optimizer steps
  Backend* host = nullptr;         // which has its moments and makes its steps (StageOptimizer)
  StashParking parking = {};       // of stashes that have no room on it
  int64_t least_part = kBackwardPartMin;  // values (BackwardParts)
  bool is_cut_finely = false;             // parts() are BackwardCuts
  TensorShard tensors = {};  // of devices that share the stage's (model/tensor_split.h)
  BranchSum* sum = nullptr;  // over those; outlives the trainer
};

// Owned by the thread that owns the backend, which outlives it.
//
// Errors: InvalidArgument (a length is wrong, a token is outside the vocabulary), AlreadyExists and
// FailedPrecondition (a call that does not fit the microbatch's life), ResourceExhausted (no
// memory, or kMicrobatchesMax alive); where stashes are parked also those of StashStore. After an
// error the microbatch is as it was before the call.
class StageTrainer {
 public:
  static constexpr int kMicrobatchesMax = 1024;  // alive at once

  // Layers [first_layer, last_layer), whole ladders (TransformerConfig::ladder), at least one
  // unless `holds_ends`; `holds_ends` on stage 0: embedding, final norm, head. Parameters are
  // initialised from config.seed. The first `recomputed_layers` of them keep only their input of a
  // microbatch, and their forward pass is repeated on the way back (pipeline/plan/memory_model.h
  // chooses how many): the bits are the same. With a `share` gradients are of the mean over all its
  // sequences; where it parks stashes, the bits are the same, too. Where it is of `tensors`,
  // parameters are zero until they are written, all such devices make the same calls at the same
  // time, and the errors of BranchSum::status come too, after which none of them is of more use.
  static absl::StatusOr<std::unique_ptr<StageTrainer>> Create(
      const RunConfig& config, int32_t first_layer, int32_t last_layer, bool holds_ends,
      Backend* backend, int32_t recomputed_layers = 0, const DeviceShare& share = {});

  // Stage 0. tokens [T] → out [T, d], the residual stream after embedding and own layers; on a
  // device that shares tensors `out` may be empty, as here and below what all of them have.
  absl::Status ForwardFirst(MicrobatchKey key, std::span<const int32_t> tokens,
                            std::span<float> out);
  // The others. in, out [T, d].
  absl::Status Forward(MicrobatchKey key, std::span<const float> in, std::span<float> out);

  // Stage 0, when the microbatch is back. in [T, d], targets [T] → d_in [T, d] = ∂loss/∂in. Returns
  // the mean cross-entropy, nat. The head's gradient stays with the microbatch.
  absl::StatusOr<float> Loss(MicrobatchKey key, std::span<const float> in,
                             std::span<const int32_t> targets, std::span<float> d_in);

  // d_out, d_in [T, d]; on stage 0 d_in is empty: the rest goes into the embedding.
  absl::Status Backward(MicrobatchKey key, std::span<const float> d_out, std::span<float> d_in);
  // The same in parts(), each called once, in their order, with no other pass in between
  // (FailedPrecondition); only the last fills d_in.
  absl::Status BackwardPartOf(MicrobatchKey key, size_t part, std::span<const float> d_out,
                              std::span<float> d_in);
  const std::vector<BackwardPart>& parts() const { return parts_; }

  // What those refuse before anything is done. Where devices share tensors who calls them asks
  // first, as none may begin alone; lengths of streams, some of which are empty then, only there.
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;
  absl::Status CheckForward(MicrobatchKey key) const;
  absl::Status CheckLoss(MicrobatchKey key, std::span<const int32_t> targets) const;
  absl::Status CheckBackward(MicrobatchKey key) const;
  absl::Status CheckStream(size_t in, size_t out) const;

  // The stage is the whole model.
  bool KeepsStream() const {
    return holds_ends_ && first_layer_ == 0 && last_layer_ == config_.model.layers;
  }

  // Adds the microbatch's gradient to the accumulator and ends the microbatch. Only after Backward.
  void Accumulate(MicrobatchKey key);
  // Of a part only. For each part once, in their order, when its gradients are final for all of
  // these; the last one ends the microbatches.
  void AccumulatePart(size_t part, std::span<const MicrobatchKey> keys);
  // What TakeGradients would give of a part were these accumulated too, in their order, [its size].
  // For each part once, in their order, when its gradients are final for all of them; the last one
  // ends the microbatches.
  void TakePart(size_t part, std::span<const MicrobatchKey> keys, std::span<float> sums);
  // Ends the microbatch without a trace; fine if it is unknown.
  void Discard(MicrobatchKey key);

  // What was accumulated since the last step, [layout().size()], on the backend: others may add to
  // it before the next.
  float* gradient_sum() { return accumulator_->data(); }
  // The same in host memory: read and zeroed; what was read, or summed elsewhere, put in its place.
  void TakeGradients(std::span<float> sums);
  void PutGradients(std::span<const float> sums);

  // The inner step `step` (0-based: selects the learning rate) on the mean over `microbatches`
  // accumulated ones, then zeroes the accumulator. 0 microbatches: nothing changes. InvalidArgument
  // if a gradient is not finite; then parameters are as before and the accumulator is zeroed.
  absl::Status OptimizerStep(int64_t step, int32_t microbatches);
  // The same for its share, of a gradient_sum() that is true there (StageOptimizer::StepWith); the
  // other weights come from who stepped them, then WeightsChanged.
  void Squares(std::span<double> squares);
  absl::Status StepWith(std::span<const double> squares, int64_t step, int32_t microbatches);
  float* weights() { return weights_->values(); }
  void WeightsChanged() { weights_->Changed(); }

  // Layers that neighbours gave (StageAssignment::remade) learn faster (model/stage_remake.h).
  void RaiseRates(const std::vector<int32_t>& remade);
  void ResetOptimizer();
  StageOptimizer& optimizer() { return *optimizer_; }
  const StageOptimizer& optimizer() const { return *optimizer_; }

  // The live parameters [layout().size()].
  void ReadParameters(std::span<float> out);
  void WriteParameters(std::span<const float> values);
  // In host memory, to read and to change (WeightStore::Host).
  std::span<float> HostParameters();
  void HostParametersChanged();
  const ParameterLayout& layout() const { return layout_; }

  // What its buffers take on the backend; the backend's own scratch is not among it.
  int64_t HeldBytes() const;
  // Gives back what only later microbatches would use.
  void Trim();

 private:
  struct Microbatch {
    std::vector<int32_t> tokens;       // stage 0: OwnTokens
    StashPool::Id stash = 0;           // 0 once Backward is through
    std::unique_ptr<Buffer> gradient;  // nullptr before Loss (stage 0) or Backward
    bool has_loss = false;
    bool has_gradient = false;
  };
  // Views into `workspace_`.
  struct Scratch {
    Matrix stream;  // [T, d]; empty where stashes have it
    BlockScratch block;
    HeadScratch head;                  // without rows unless holds_ends
    std::optional<BlockStash> shared;  // of layers that are recomputed
    Scratch(const StageTrainer& stage, FloatCarver& carver);
  };
  // Views into a microbatch's stash, and where its stream is.
  struct Kept {
    std::vector<BlockStash> layers;
    Matrix stream;  // [T, d]: in the stash, or scratch_->stream
  };

  StageTrainer(const RunConfig& config, ParameterLayout layout, Backend* backend);
  absl::Status AllocateBuffers(const DeviceShare& share);
  absl::Status Stepped(const absl::Status& status, int64_t step);
  absl::StatusOr<Microbatch> Begin(MicrobatchKey key);
  // Ends a forward pass: the microbatch waits for its way back.
  absl::Status Keep(MicrobatchKey key, Microbatch microbatch, const Kept& kept,
                    std::span<float> out);
  // Of the sums among devices, so far.
  absl::Status Summed() const { return sum_ == nullptr ? absl::OkStatus() : sum_->status(); }
  Kept Views(FloatCarver& carver) const;
  Kept KeptOf(const Microbatch& microbatch) const;
  void RunLayers(const Kept& kept);
  absl::Status BeginBackwardOf(MicrobatchKey key, std::span<const float> d_out,
                               std::span<float> d_in);
  void RunLayersBack(const Microbatch& microbatch, int32_t from, int32_t down_to);
  absl::Status EndBackwardOf(Microbatch& microbatch, std::span<float> d_in);
  void Refill(const BlockWeights& weights, const BlockStash& stash);

  RunConfig config_;
  ParameterLayout layout_;
  PassShape shape_;
  int32_t first_layer_ = 0, last_layer_ = 0;
  int32_t recomputed_ = 0;  // layers, from the first on
  bool holds_ends_ = false;
  BranchSum* sum_ = nullptr;  // DeviceShare::sum
  Backend* backend_;
  std::unique_ptr<WeightStore> weights_;
  std::unique_ptr<Buffer> accumulator_, workspace_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<StageOptimizer> optimizer_;
  std::unique_ptr<StashPool> stashes_;
  std::unique_ptr<BufferPool> gradients_;
  std::map<MicrobatchKey, Microbatch> microbatches_;
  std::vector<BackwardPart> parts_;
  // The backward pass that has begun and not ended, and the part that is next.
  struct {
    std::optional<MicrobatchKey> key;
    size_t next = 0;
  } back_;
};

}  // namespace skerry
