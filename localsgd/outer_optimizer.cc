#include "localsgd/outer_optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

OuterOptimizer::OuterOptimizer(const OuterOptimizerConfig& config, int64_t size)
    : config_(config),
      size_(size),
      velocity_(config.momentum > 0 ? static_cast<size_t>(size) : 0, 0.0f) {
  SKERRY_CHECK(config.learning_rate > 0);
  SKERRY_CHECK(config.momentum >= 0 && config.momentum < 1);
  SKERRY_CHECK(config.clip_ratio >= 0 && config.momentum_clip >= 0);
  gap_ = static_cast<float>(
      StalenessGap(config.gap, config.rule, config.learning_rate, config.momentum));
}

absl::Status OuterOptimizer::Step(std::span<const float> pseudo_gradient,
                                  std::span<float> parameters) {
  if (std::ssize(pseudo_gradient) != size_ || std::ssize(parameters) != size_) {
    return InvalidArgument("outer step: want %d values, got %d gradients and %d parameters", size_,
                           pseudo_gradient.size(), parameters.size());
  }
  // A single hostile or diverged replica must not poison the shared parameters.
  if (!AllFinite(pseudo_gradient)) {
    return InvalidArgument("outer step %d: pseudo-gradient is not finite", outer_step_);
  }
  Norms norms;
  if (Clips()) Measure(0, pseudo_gradient, parameters, &norms);
  ApplyTile(0, pseudo_gradient, ClipFactor(norms), parameters);
  FinishStep();
  return absl::OkStatus();
}

void OuterOptimizer::Measure(int64_t first, std::span<const float> pseudo_gradient,
                             std::span<const float> parameters, Norms* norms) const {
  const float inverse_gap = 1 / gap_;
  for (size_t i = 0; i < pseudo_gradient.size(); ++i) {
    const float kept = Momentum(first + static_cast<int64_t>(i));
    const double updated = kept + pseudo_gradient[i] * inverse_gap;
    norms->momentum += updated * updated;
    norms->parameters += static_cast<double>(parameters[i]) * parameters[i];
  }
}

float OuterOptimizer::ClipFactor(const Norms& norms) const {
  const double limit = static_cast<double>(config_.clip_ratio) * std::sqrt(norms.parameters);
  const double length = static_cast<double>(config_.learning_rate) * std::sqrt(norms.momentum);
  if (!Clips() || limit == 0 || length <= limit) return 1;
  return static_cast<float>(limit / length);
}

void OuterOptimizer::ApplyTile(int64_t first, std::span<const float> pseudo_gradient,
                               float clip_factor, std::span<float> parameters) {
  SKERRY_CHECK(first >= 0 && pseudo_gradient.size() == parameters.size());
  SKERRY_CHECK(first + std::ssize(parameters) <= size_);
  const float alpha = config_.learning_rate;
  const float beta = config_.momentum;
  const float inverse_gap = 1 / gap_;
  const bool nesterov = config_.rule == OuterRule::kNesterov;
  const float* d = pseudo_gradient.data();
  float* x = parameters.data();
  const float bound =
      config_.momentum_clip > 0 ? config_.momentum_clip : std::numeric_limits<float>::infinity();
  if (velocity_.empty()) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const float g = clip_factor * (d[i] * inverse_gap);
      x[i] -= alpha * (nesterov ? g : std::clamp(g, -bound, bound));
    }
    return;
  }
  float* m = velocity_.data() + first;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float g = d[i] * inverse_gap;
    const float free = clip_factor * (beta * m[i] + g);
    const float updated = std::clamp(free, -bound, bound);
    m[i] = updated;
    x[i] -= alpha * (nesterov ? clip_factor * g + beta * updated : updated);
  }
}

void OuterOptimizer::Resume(int64_t outer_step, std::vector<float> velocity) {
  SKERRY_CHECK(std::ssize(velocity) == size_);
  if (!velocity_.empty()) velocity_ = std::move(velocity);
  outer_step_ = outer_step;
}

}  // namespace skerry
