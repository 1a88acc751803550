#include "model/stage_optimizer.h"

#include <cmath>
#include <vector>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr float kMuonMomentum = 0.95f;

}  // namespace

StageOptimizer::StageOptimizer(const InnerConfig& config, const ParameterLayout* layout,
                               Backend* backend)
    : config_(config), layout_(layout), backend_(backend) {
  for (const ParameterBlock& block : layout->blocks())
    blocks_.push_back({block.offset, block.size, 1, 0});
  for (const TensorSlot& slot : layout->tensors())
    tensors_.push_back({slot.offset, slot.size(), 1, slot.decays ? config.weight_decay : 0.0f});
  block_sums_.resize(blocks_.size());
  SetRates(std::vector<double>(blocks_.size(), 1));
}

void StageOptimizer::SetRates(const std::vector<double>& rates) {
  SKERRY_CHECK(rates.size() == blocks_.size());
  runs_.clear();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const double rate = rates[static_cast<size_t>(layout_->tensors()[t].block)];
    const bool is_orthogonal =
        config_.optimizer == InnerOptimizer::kMuon && layout_->tensors()[t].is_hidden_matrix;
    const bool begins =
        runs_.empty() || runs_.back().rate != rate || is_orthogonal || runs_.back().is_orthogonal;
    if (begins) runs_.push_back({t, 0, rate, is_orthogonal});
    ++runs_.back().count;
  }
}

absl::StatusOr<std::unique_ptr<StageOptimizer>> StageOptimizer::Create(
    const InnerConfig& config, const ParameterLayout* layout, Backend* backend) {
  std::unique_ptr<StageOptimizer> optimizer(new StageOptimizer(config, layout, backend));
  if (config.optimizer != InnerOptimizer::kSgd) {
    SKERRY_ASSIGN_OR_RETURN(optimizer->first_moment_, backend->Allocate(layout->size()));
    SKERRY_ASSIGN_OR_RETURN(optimizer->second_moment_, backend->Allocate(layout->size()));
    optimizer->Reset();
  }
  if (config.optimizer == InnerOptimizer::kMuon) {
    SKERRY_ASSIGN_OR_RETURN(optimizer->orthogonal_, OrthogonalStep::Create(*layout, backend));
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

absl::Status StageOptimizer::SetScales(int32_t microbatches, const float* gradient_sum) {
  backend_->SumsOfSquares(gradient_sum, blocks_, block_sums_);
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const double norm = std::sqrt(block_sums_[b]) / microbatches;
    if (!std::isfinite(norm)) {
      return InvalidArgument(
          "the gradient of %s is not finite: training has diverged; a lower learning rate or a "
          "longer warmup helps",
          layout_->blocks()[b].name);
    }
    const bool clips = config_.clip_norm > 0 && norm > config_.clip_norm;
    blocks_[b].gradient_scale =
        static_cast<float>((clips ? config_.clip_norm / norm : 1.0) / microbatches);
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const auto block = static_cast<size_t>(layout_->tensors()[t].block);
    tensors_[t].gradient_scale = blocks_[block].gradient_scale;
  }
  return absl::OkStatus();
}

void StageOptimizer::StepOrthogonally(size_t tensor, float learning_rate, const float* gradient_sum,
                                      WeightStore* weights) {
  const TensorSlot& slot = layout_->tensors()[tensor];
  const UpdateRange& update = tensors_[tensor];
  const float* direction =
      orthogonal_->Direction(slot, kMuonMomentum, update.gradient_scale, gradient_sum + slot.offset,
                             first_moment_->data() + slot.offset);
  float* values = weights->values() + slot.offset;
  const UpdateRange all = {0, slot.size(), 1, 0};
  backend_->Sgd(learning_rate * update.weight_decay, {&all, 1},
                {.gradient = values, .parameters = values});
  Bf16* rounded = weights->rounded();
  backend_->Sgd(learning_rate, {&all, 1},
                {.gradient = direction,
                 .parameters = values,
                 .rounded = rounded == nullptr ? nullptr : rounded + slot.offset});
}

absl::Status StageOptimizer::Step(float learning_rate, int32_t microbatches,
                                  const float* gradient_sum, WeightStore* weights) {
  SKERRY_CHECK(microbatches >= 1);
  SKERRY_RETURN_IF_ERROR(SetScales(microbatches, gradient_sum));
  ++steps_;
  UpdateArrays arrays = {
      .gradient = gradient_sum, .parameters = weights->values(), .rounded = weights->rounded()};
  const bool is_sgd = config_.optimizer == InnerOptimizer::kSgd;
  if (!is_sgd) {
    arrays.m = first_moment_->data();
    arrays.v = second_moment_->data();
  }
  for (const Run& run : runs_) {
    const auto tensors = std::span<const UpdateRange>(tensors_).subspan(run.first, run.count);
    const auto rate = static_cast<float>(double{learning_rate} * run.rate);
    if (run.is_orthogonal) {
      StepOrthogonally(run.first, rate, gradient_sum, weights);
    } else if (is_sgd) {
      backend_->Sgd(rate, tensors, arrays);
    } else {
      backend_->AdamW({rate, config_.beta1, config_.beta2, config_.epsilon, steps_}, tensors,
                      arrays);
    }
  }
  return absl::OkStatus();
}

}  // namespace skerry
