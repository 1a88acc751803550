// The inner optimizer of a stage: mean over microbatches, clip by norm per block, AdamW, SGD or
// Muon.
//
// Clipping is per block (a layer, the embedding, the head) and not over the whole model, because no
// stage knows the others' gradients; so the result does not depend on the split into stages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "kernels/group/group.h"
#include "model/host_optimizer.h"
#include "model/orthogonal_step.h"
#include "model/parameter_layout.h"
#include "model/weight_store.h"

namespace skerry {

// Where several devices hold the same weights each may step a part of them and keep the moments of
// that only (Rajbhandari et al., "ZeRO", 2020, stage 1; model/sequence_team.h).
//
// Owned by one thread; backend and layout outlive it.
class StageOptimizer {
 public:
  // Of the whole arena, or of `part` of it; with Muon a part ends between tensors, as a direction
  // is a whole matrix's. With a `host`, AdamW's only, the moments are in its memory and it makes
  // the steps (model/host_optimizer.h). ResourceExhausted if the moments do not fit.
  static absl::StatusOr<std::unique_ptr<StageOptimizer>> Create(
      const InnerConfig& config, const ParameterLayout* layout, Backend* backend,
      std::optional<GroupPart> part = std::nullopt, Backend* host = nullptr);

  // One step. `gradient_sum` [layout.size()] is over `microbatches` ≥ 1. InvalidArgument, naming
  // the block, if a gradient is not finite; then nothing has changed.
  absl::Status Step(float learning_rate, int32_t microbatches, const float* gradient_sum,
                    WeightStore* weights);
  // The same in two: the sum of squares of what is its part of each of the layout's blocks, and the
  // step, of its part only, with the sums over all parts.
  void Squares(const float* gradient_sum, std::span<double> squares);
  absl::Status StepWith(std::span<const double> squares, float learning_rate, int32_t microbatches,
                        const float* gradient_sum, WeightStore* weights);

  // Of each of the layout's blocks: what the learning rate is multiplied by. Until then 1.
  void SetRates(const std::vector<double>& rates);

  // Of the moments, and Muon's scratch, or the pieces that cross to the host.
  int64_t HeldBytes() const {
    return 2 * moments() * static_cast<int64_t>(sizeof(float)) +
           (orthogonal_ == nullptr ? 0 : orthogonal_->HeldBytes()) +
           (host_ == nullptr ? 0 : host_->HeldBytes());
  }

  // Where the moments lie, [moments()] each of `holder()`'s memory; nullptr with SGD.
  float* first_moment() const { return DataOf(first_moment_); }
  float* second_moment() const { return DataOf(second_moment_); }
  Backend& holder() const { return host_ == nullptr ? *backend_ : host_->host(); }
  // Whoever writes the moments there says of how many steps they are.
  void GoOnFrom(int64_t steps) { steps_ = steps; }

  // Forgets the moments; bias correction begins anew.
  void Reset();

  int64_t steps() const { return steps_; }  // since the last Reset
  // Values of each of the two moments: its part's, none with SGD.
  int64_t moments() const { return first_moment_ == nullptr ? 0 : part_.size; }
  // first, second [moments()].
  void ReadMoments(std::span<float> first, std::span<float> second) const;
  // Goes on from there. InvalidArgument: a length is wrong; then nothing has changed.
  absl::Status WriteMoments(int64_t steps, std::span<const float> first,
                            std::span<const float> second);

 private:
  StageOptimizer(const InnerConfig& config, const ParameterLayout* layout, Backend* backend,
                 GroupPart part);
  // Sets what the gradient sum of each tensor is multiplied by: 1/microbatches, and the clip.
  absl::Status SetScales(std::span<const double> squares, int32_t microbatches);
  // Muon's, of one tensor.
  void StepOrthogonally(size_t tensor, float learning_rate, const float* gradient_sum,
                        WeightStore* weights);

  static float* DataOf(const std::unique_ptr<Buffer>& buffer) {
    return buffer == nullptr ? nullptr : buffer->data();
  }

  InnerConfig config_;
  const ParameterLayout* layout_;
  Backend* backend_;
  std::unique_ptr<HostOptimizer> host_;                   // nullptr: the backend makes the steps
  GroupPart part_;                                        // of the arena: what it steps
  std::unique_ptr<Buffer> first_moment_, second_moment_;  // [part]; nullptr with SGD
  std::vector<UpdateRange> blocks_;                       // the part's share of each
  std::vector<UpdateRange> tensors_;                      // the same, from the part's beginning
  std::unique_ptr<OrthogonalStep> orthogonal_;            // nullptr but with Muon
  struct Run {  // of tensors that follow each other and have one rate
    size_t first = 0, count = 0;
    double rate = 1;
    bool is_orthogonal = false;  // one matrix, by Muon
  };
  std::vector<Run> runs_;
  std::vector<double> block_sums_;  // of the squared gradient
  int64_t steps_ = 0;               // since the last Reset
};

}  // namespace skerry
