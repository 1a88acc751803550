// By which angles RoPE turns the pairs of a head (Su and others 2021), and how that is stretched.
//
// Pair i of a head of size e turns by position · f(i), f(i) = base^(−2i/e). kLinear divides every f
// by `factor` (Chen and others 2023). kLlama3 (LLaMA 3.1) does so only to pairs that turn fewer
// than low_frequency times over the original context, leaves those alone that turn more than
// high_frequency times, and goes over from one to the other in between.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "common/run_config.h"

namespace skerry {

struct RopeAngles {
  float base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1;
  float low_frequency = 1, high_frequency = 4;
  int64_t original_context = 0;

  RopeAngles() = default;
  RopeAngles(float b) : base(b) {}  // NOLINT: implicit, most models have no more than a base
  explicit RopeAngles(const TransformerConfig& model)
      : base(model.rope_base),
        scaling(model.rope_scaling),
        factor(model.rope_factor),
        low_frequency(model.rope_low_frequency),
        high_frequency(model.rope_high_frequency),
        original_context(model.rope_original_context) {}
  bool operator==(const RopeAngles&) const = default;

  // Radians a position, of pair i in [0, head_size / 2).
  double Frequency(int64_t i, int64_t head_size) const {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(head_size);
    const double plain = std::pow(static_cast<double>(base), exponent);
    if (scaling == RopeScaling::kNone) return plain;
    const double stretched = plain / static_cast<double>(factor);
    if (scaling == RopeScaling::kLinear) return stretched;
    const double turns = static_cast<double>(original_context) * plain / (2 * std::numbers::pi);
    const double low = static_cast<double>(low_frequency);
    const double high = static_cast<double>(high_frequency);
    const double share = std::fmin(std::fmax((turns - low) / (high - low), 0), 1);
    return (1 - share) * stretched + share * plain;
  }
};

}  // namespace skerry
