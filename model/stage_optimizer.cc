#include "model/stage_optimizer.h"

#include <cmath>
#include <vector>

#include "common/check.h"
#include "common/status.h"

namespace skerry {

absl::StatusOr<std::unique_ptr<StageOptimizer>> StageOptimizer::Create(
    const InnerConfig& config, const ParameterLayout* layout, Backend* backend) {
  std::unique_ptr<StageOptimizer> optimizer(new StageOptimizer(config, layout, backend));
  if (config.optimizer == InnerOptimizer::kAdamW) {
    SKERRY_ASSIGN_OR_RETURN(optimizer->first_moment_, backend->Allocate(layout->size()));
    SKERRY_ASSIGN_OR_RETURN(optimizer->second_moment_, backend->Allocate(layout->size()));
    optimizer->Reset();
  }
  return optimizer;
}

void StageOptimizer::Reset() {
  steps_ = 0;
  if (first_moment_ == nullptr) return;
  backend_->Fill(first_moment_->data(), 0, layout_->size());
  backend_->Fill(second_moment_->data(), 0, layout_->size());
}

void StageOptimizer::ReadMoments(std::span<float> first, std::span<float> second) const {
  SKERRY_CHECK(std::ssize(first) == moments() && std::ssize(second) == moments());
  if (first_moment_ == nullptr) return;
  backend_->Download(first_moment_->data(), first);
  backend_->Download(second_moment_->data(), second);
  backend_->Synchronize();
}

absl::Status StageOptimizer::WriteMoments(int64_t steps, std::span<const float> first,
                                          std::span<const float> second) {
  const auto size = static_cast<size_t>(first_moment_ == nullptr ? 0 : layout_->size());
  if (first.size() != size || second.size() != size || steps < 0) {
    return InvalidArgument("moments: want %d values, got %d and %d of %d steps", size, first.size(),
                           second.size(), steps);
  }
  steps_ = steps;
  if (first_moment_ == nullptr) return absl::OkStatus();
  backend_->Upload(first, first_moment_->data());
  backend_->Upload(second, second_moment_->data());
  backend_->Synchronize();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> StageOptimizer::Scales(int32_t microbatches,
                                                          const float* gradient_sum) {
  std::vector<float> scales;
  for (const ParameterBlock& block : layout_->blocks()) {
    const double sum = backend_->SumOfSquares(gradient_sum + block.offset, block.size);
    const double norm = std::sqrt(sum) / microbatches;
    if (!std::isfinite(norm)) {
      return InvalidArgument(
          "the gradient of %s is not finite: training has diverged; a lower learning rate or a "
          "longer warmup helps",
          block.name);
    }
    const bool clips = config_.clip_norm > 0 && norm > config_.clip_norm;
    scales.push_back(static_cast<float>((clips ? config_.clip_norm / norm : 1.0) / microbatches));
  }
  return scales;
}

absl::Status StageOptimizer::Step(float learning_rate, int32_t microbatches,
                                  const float* gradient_sum, float* parameters) {
  SKERRY_CHECK(microbatches >= 1);
  SKERRY_ASSIGN_OR_RETURN(const std::vector<float> scales, Scales(microbatches, gradient_sum));
  ++steps_;
  for (const TensorSlot& slot : layout_->tensors()) {
    const float scale = scales[static_cast<size_t>(slot.block)];
    const float* gradient = gradient_sum + slot.offset;
    float* values = parameters + slot.offset;
    if (config_.optimizer == InnerOptimizer::kSgd) {
      backend_->Sgd(learning_rate, scale, gradient, values, slot.size());
      continue;
    }
    AdamWStep step;
    step.learning_rate = learning_rate;
    step.beta1 = config_.beta1;
    step.beta2 = config_.beta2;
    step.epsilon = config_.epsilon;
    step.weight_decay = slot.decays ? config_.weight_decay : 0.0f;
    step.gradient_scale = scale;
    step.step = steps_;
    backend_->AdamW(step, gradient, values, first_moment_->data() + slot.offset,
                    second_moment_->data() + slot.offset, slot.size());
  }
  return absl::OkStatus();
}

}  // namespace skerry
