// The outer optimizer of local-update training: momentum on averaged pseudo-gradients, with the
// staleness gap and a scale-free clip (CO2, Sun et al. 2024; DiLoCo, Douillard et al. 2023).
//
//   g = d · (1/Λ)                              Λ of staleness_gap.h, 1/Λ rounded to float32
//   m ← β·m + g
//   c = min(1, φ·rms(x) / rms(α·m))            the clip, over the whole fragment; 1 when φ = 0
//   m ← c·m,  g ← c·g                          or the clipped step could still be dominated by g
//   m ← clamp(m, −φ∞, φ∞)                      CO2's own clip, element by element; off when φ∞ = 0
//   x ← x − α·(g + β·m)                        Nesterov
//   x ← x − α·m                                heavy-ball
//
// With d averaged pseudo-gradient x − θ, m momentum, x base parameters. A base of zeros (rms 0) is
// not clipped.
//
// The base is never exchanged in steady state, so the step must give the same bits on every
// machine: it runs on the CPU, in index order, in float32 (norms in double), without contraction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "localsgd/staleness_gap.h"

namespace skerry {

struct OuterOptimizerConfig {
  float learning_rate = 0.7f;  // α > 0
  float momentum = 0.6f;       // β in [0, 1); 0 is plain SGD
  OuterRule rule = OuterRule::kNesterov;
  GapConfig gap = {};
  float clip_ratio = 0;  // φ ≥ 0; useful about 0.02 to 0.05; 0 is off
  // φ∞ ≥ 0, in units of a parameter; 0 is off. With Nesterov g itself is not clamped.
  float momentum_clip = 0;
};

// Not thread-safe: one thread owns it. Copyable. Memory: 4 bytes per parameter, the momentum; none
// with β = 0, where m is nothing that a later step reads.
class OuterOptimizer {
 public:
  // `size` is the number of parameters of the fragment this optimizer owns.
  OuterOptimizer(const OuterOptimizerConfig& config, int64_t size);

  // Applies one outer step in place.
  //
  //   pseudo_gradient  [size]  mean over replicas of (x − θ_replica)
  //   parameters       [size]  x, updated
  //
  // InvalidArgument if a length differs from `size` or a pseudo-gradient is not finite; then
  // nothing has changed.
  absl::Status Step(std::span<const float> pseudo_gradient, std::span<float> parameters);

  // The same step for callers that make the pseudo-gradient tile by tile: when Clips(), Measure
  // every tile in index order; then ApplyTile every tile with ClipFactor(norms); then FinishStep.
  // A tile holds the values from index `first` on; any cut gives the same bits.
  struct Norms {
    double momentum = 0;    // Σ m², after the step's update, before the clip
    double parameters = 0;  // Σ x²
  };
  bool Clips() const { return config_.clip_ratio > 0; }
  void Measure(int64_t first, std::span<const float> pseudo_gradient,
               std::span<const float> parameters, Norms* norms) const;
  float ClipFactor(const Norms& norms) const;
  void ApplyTile(int64_t first, std::span<const float> pseudo_gradient, float clip_factor,
                 std::span<float> parameters);
  void FinishStep() { ++outer_step_; }

  int64_t outer_step() const { return outer_step_; }             // completed steps
  float gap() const { return gap_; }                             // Λ
  std::span<const float> velocity() const { return velocity_; }  // [size]; empty with β = 0

  // Continues after so many steps; `velocity` is [size], and read unless β = 0.
  void Resume(int64_t outer_step, std::vector<float> velocity);

 private:
  float Momentum(int64_t at) const {  // β·m
    return velocity_.empty() ? 0.0f : config_.momentum * velocity_[static_cast<size_t>(at)];
  }

  OuterOptimizerConfig config_;
  float gap_ = 1;
  int64_t size_;
  std::vector<float> velocity_;  // m [size]; none with β = 0
  int64_t outer_step_ = 0;
};

}  // namespace skerry
