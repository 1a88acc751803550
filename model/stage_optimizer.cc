#include "model/stage_optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr float kMuonMomentum = 0.95f;

// What of `size` values from `offset` is in the part.
UpdateRange Inside(const GroupPart& part, int64_t offset, int64_t size) {
  const int64_t first = std::clamp(offset, part.first, part.first + part.size);
  const int64_t last = std::clamp(offset + size, part.first, part.first + part.size);
  return {first, last - first, 1, 0};
}

}  // namespace

StageOptimizer::StageOptimizer(const InnerConfig& config, const ParameterLayout* layout,
                               Backend* backend, GroupPart part)
    : config_(config), layout_(layout), backend_(backend), part_(part) {
  for (const ParameterBlock& block : layout->blocks())
    blocks_.push_back(Inside(part, block.offset, block.size));
  for (const TensorSlot& slot : layout->tensors()) {
    UpdateRange range = Inside(part, slot.offset, slot.size());
    SKERRY_CHECK(config.optimizer != InnerOptimizer::kMuon || range.size == 0 ||
                 range.size == slot.size());
    range.offset -= part.first;
    range.weight_decay = slot.decays ? config.weight_decay : 0.0f;
    tensors_.push_back(range);
  }
  block_sums_.resize(blocks_.size());
  SetRates(std::vector<double>(blocks_.size(), 1));
}

void StageOptimizer::SetRates(const std::vector<double>& rates) {
  SKERRY_CHECK(rates.size() == blocks_.size());
  runs_.clear();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].size == 0) continue;
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
    const InnerConfig& config, const ParameterLayout* layout, Backend* backend,
    std::optional<GroupPart> part, Backend* host) {
  SKERRY_CHECK(host == nullptr || config.optimizer == InnerOptimizer::kAdamW);
  const GroupPart own = part.value_or(GroupPart{0, layout->size()});
  std::unique_ptr<StageOptimizer> optimizer(new StageOptimizer(config, layout, backend, own));
  if (host != nullptr) {
    SKERRY_ASSIGN_OR_RETURN(optimizer->host_, HostOptimizer::Create(own.size, backend, host));
  }
  if (config.optimizer != InnerOptimizer::kSgd) {
    const int64_t moments = std::max<int64_t>(own.size, 1);
    SKERRY_ASSIGN_OR_RETURN(optimizer->first_moment_, optimizer->holder().Allocate(moments));
    SKERRY_ASSIGN_OR_RETURN(optimizer->second_moment_, optimizer->holder().Allocate(moments));
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
  holder().Fill(first_moment_->data(), 0, part_.size);
  holder().Fill(second_moment_->data(), 0, part_.size);
}

void StageOptimizer::ReadMoments(std::span<float> first, std::span<float> second) const {
  SKERRY_CHECK(std::ssize(first) == moments() && std::ssize(second) == moments());
  if (first_moment_ == nullptr) return;
  holder().Download(first_moment_->data(), first);
  holder().Download(second_moment_->data(), second);
  holder().Synchronize();
}

absl::Status StageOptimizer::WriteMoments(int64_t steps, std::span<const float> first,
                                          std::span<const float> second) {
  const auto size = static_cast<size_t>(moments());
  if (first.size() != size || second.size() != size || steps < 0) {
    return InvalidArgument("moments: want %d values, got %d and %d of %d steps", size, first.size(),
                           second.size(), steps);
  }
  steps_ = steps;
  if (first_moment_ == nullptr) return absl::OkStatus();
  holder().Upload(first, first_moment_->data());
  holder().Upload(second, second_moment_->data());
  holder().Synchronize();
  return absl::OkStatus();
}

void StageOptimizer::Squares(const float* gradient_sum, std::span<double> squares) {
  SKERRY_CHECK(squares.size() == blocks_.size());
  backend_->SumsOfSquares(gradient_sum, blocks_, squares);
}

absl::Status StageOptimizer::SetScales(std::span<const double> squares, int32_t microbatches) {
  SKERRY_CHECK(squares.size() == blocks_.size());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const double norm = std::sqrt(squares[b]) / microbatches;
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
                             first_moment_->data() + update.offset);
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
  Squares(gradient_sum, block_sums_);
  return StepWith(block_sums_, learning_rate, microbatches, gradient_sum, weights);
}

absl::Status StageOptimizer::StepWith(std::span<const double> squares, float learning_rate,
                                      int32_t microbatches, const float* gradient_sum,
                                      WeightStore* weights) {
  SKERRY_CHECK(microbatches >= 1);
  SKERRY_RETURN_IF_ERROR(SetScales(squares, microbatches));
  ++steps_;
  Bf16* rounded = weights->rounded();
  UpdateArrays arrays = {.gradient = gradient_sum + part_.first,
                         .parameters = weights->values() + part_.first,
                         .rounded = rounded == nullptr ? nullptr : rounded + part_.first};
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
      const AdamWStep step = {rate, config_.beta1, config_.beta2, config_.epsilon, steps_};
      if (host_ == nullptr) {
        backend_->AdamW(step, tensors, arrays);
      } else {
        host_->AdamW(step, tensors, arrays);
      }
    }
  }
  if (host_ != nullptr) weights->Changed();
  return absl::OkStatus();
}

}  // namespace skerry
