// How large an outer step is still stable, and the penalty Λ that keeps it so.
//
// Along one direction in which a round contracts by κ, the averaged delta is κ·(x − x*). With
// p = α·κ / Λ and deltas that are s rounds old, the outer loop is the recurrence
//
//   heavy-ball:  x_{t+1} − (1+β)·x_t + β·x_{t−1} + p·x_{t−s} = 0
//   Nesterov:    x_{t+1} − (1+β)·x_t + β·x_{t−1} + p·[(1+β)·x_{t−s} − β·x_{t−s−1}] = 0
//
// StabilityLimit(rule, β, s) is the largest p at which all roots of its characteristic polynomial
// lie inside the unit circle: 2(1+β) and 2(1+β)/(1+2β) at s = 0, 1 − β for heavy-ball at s = 1
// (the setting of CO2, Sun et al. 2024, whose gap penalty Λ is the same device).
//
// Everything here is IEEE double arithmetic by +, −, ×, ÷ only: equal bits on every machine.
#pragma once

#include <cstdint>

namespace skerry {

enum class OuterRule : uint8_t { kNesterov, kHeavyBall };

inline constexpr int kStalenessMax = 64;

// `momentum` β in [0, 1), `staleness` s in [0, kStalenessMax] rounds. Accurate to 1e-12. About a
// microsecond at s = 0, quadratic in s.
double StabilityLimit(OuterRule rule, double momentum, int staleness);

struct GapConfig {
  bool enabled = true;
  int staleness = 0;         // s; 0 while updates land before the next boundary
  double contraction = 1.0;  // κ̂, an upper estimate of κ
  double given = 0;          // Λ itself, ≥ 1; 0: from the rest
};

// Λ = max(1, α·κ̂ / (0.8 · StabilityLimit)) unless given; 1 when disabled. The pseudo-gradient is
// divided by it.
double StalenessGap(const GapConfig& gap, OuterRule rule, double learning_rate, double momentum);

}  // namespace skerry
