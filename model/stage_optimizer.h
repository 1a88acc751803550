// The inner optimizer of a stage: mean over microbatches, clip by norm per block, AdamW, SGD or
// Muon.
//
// Clipping is per block (a layer, the embedding, the head) and not over the whole model, because no
// stage knows the others' gradients; so the result does not depend on the split into stages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/orthogonal_step.h"
#include "model/parameter_layout.h"
#include "model/weight_store.h"

namespace skerry {

// Owned by one thread; backend and layout outlive it.
class StageOptimizer {
 public:
  // ResourceExhausted if the moments do not fit.
  static absl::StatusOr<std::unique_ptr<StageOptimizer>> Create(const InnerConfig& config,
                                                                const ParameterLayout* layout,
                                                                Backend* backend);

  // One step. `gradient_sum` [layout.size()] is over `microbatches` ≥ 1. InvalidArgument, naming
  // the block, if a gradient is not finite; then nothing has changed.
  absl::Status Step(float learning_rate, int32_t microbatches, const float* gradient_sum,
                    WeightStore* weights);

  // Of each of the layout's blocks: what the learning rate is multiplied by. Until then 1.
  void SetRates(const std::vector<double>& rates);

  // Of the moments, and Muon's scratch.
  int64_t HeldBytes() const {
    return 2 * moments() * static_cast<int64_t>(sizeof(float)) +
           (orthogonal_ == nullptr ? 0 : orthogonal_->HeldBytes());
  }

  // Forgets the moments; bias correction begins anew.
  void Reset();

  int64_t steps() const { return steps_; }  // since the last Reset
  // Values of each of the two moments: layout.size(), none with SGD.
  int64_t moments() const { return first_moment_ == nullptr ? 0 : layout_->size(); }
  // first, second [moments()].
  void ReadMoments(std::span<float> first, std::span<float> second) const;
  // Goes on from there. InvalidArgument: a length is wrong; then nothing has changed.
  absl::Status WriteMoments(int64_t steps, std::span<const float> first,
                            std::span<const float> second);

 private:
  StageOptimizer(const InnerConfig& config, const ParameterLayout* layout, Backend* backend);
  // Sets what the gradient sum of each tensor is multiplied by: 1/microbatches, and the clip.
  absl::Status SetScales(int32_t microbatches, const float* gradient_sum);
  // Muon's, of one tensor.
  void StepOrthogonally(size_t tensor, float learning_rate, const float* gradient_sum,
                        WeightStore* weights);

  InnerConfig config_;
  const ParameterLayout* layout_;
  Backend* backend_;
  std::unique_ptr<Buffer> first_moment_, second_moment_;  // nullptr with SGD
  std::vector<UpdateRange> blocks_, tensors_;             // as in the layout
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
