#include "model/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/check.h"

namespace skerry {

float LearningRate(const InnerConfig& config, int64_t step, int64_t total_steps) {
  SKERRY_CHECK(step >= 0);
  const double peak = config.learning_rate;
  const double minimum = config.min_learning_rate;
  if (step < config.warmup_steps) {
    return static_cast<float>(peak * static_cast<double>(step + 1) /
                              static_cast<double>(config.warmup_steps));
  }
  const int64_t last = total_steps - 1;
  const int64_t peak_step = std::max<int64_t>(config.warmup_steps - 1, 0);
  if (step >= last) return static_cast<float>(minimum);
  const double share =
      static_cast<double>(step - peak_step) / static_cast<double>(last - peak_step);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * share));
  return static_cast<float>(minimum + (peak - minimum) * cosine);
}

}  // namespace skerry
