// Learning rate over a run: linear warmup, then a half cosine to the minimum at the last step.
#pragma once

#include <cstdint>

#include "common/run_config.h"

namespace skerry {

// The rate of inner step `step` (0-based, ≥ 0) of `total_steps`. Step 0 of a warmup of n has 1/n of
// the peak, step n − 1 the peak, step total_steps − 1 and all after it the minimum.
float LearningRate(const InnerConfig& config, int64_t step, int64_t total_steps);

}  // namespace skerry
