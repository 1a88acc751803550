// Random initial parameters, the same bits on every machine and for every split into stages: a
// tensor depends on the run's seed, the model's depth and its own name only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/run_config.h"
#include "model/parameter_layout.h"

namespace skerry {

inline constexpr double kInitialDeviation = 0.02;

// Norms become 1, matrices normal(0, 0.02), those that write into the residual stream
// normal(0, 0.02 / √(2 · layers)) (GPT-2's rule). The normal is a sum of twelve 16-bit uniforms in
// integers: exact everywhere, which the logarithm and cosine of Box–Muller are not.
void InitializeTensor(uint64_t seed, int32_t layers, const TensorSlot& slot, std::span<float> out);

// All tensors of a layout; `out` has layout.size() values.
void InitializeParameters(uint64_t seed, const TransformerConfig& config,
                          const ParameterLayout& layout, std::span<float> out);

}  // namespace skerry
