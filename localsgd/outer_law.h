// The modes of local-update training, and what each makes of a run's outer configuration.
//
//   mode            what a replica does                                            δ         β, α
//   overlap         encodes at the boundary, trains on, shifts its live weights     0 … τ     given
//                   when the step lands: CO2-δ, progress in flight is kept
//   synchronous     waits at the boundary for the step (DiLoCo, Douillard 2023)     0         given
//   co2             takes the step of the round before and restarts from it (CO2,   τ given,
//                   Sun et al. 2024): heavy-ball momentum, Λ at staleness 1, heavy- clamped
//                   momentum                                                          ball
//   streaming       overlap, but every fragment of the parameters has its own       0 … τ     given
//                   boundaries, spread over the round (Streaming DiLoCo, 2025)
//   data_parallel   the plain mean of the weights after every inner step: with      0         0, 1
//                   SGD exactly synchronous data parallelism, with AdamW nearly
//                   (every replica keeps its own moments); τ is 1
//
// A law is a value: what OuterReplica and OuterSchedule are made from. Equal on all replicas.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "localsgd/replica.h"

namespace skerry {

struct OuterLawOptions {
  int32_t fragments = 4;          // kStreaming: how many, at least 1 and at most τ
  float momentum_clip = 0;        // kCo2: φ∞, in units of a parameter; 0 is off
  double gap = 0;                 // kCo2: Λ ≥ 1; 0: staleness_gap.h computes it for s = 1
  OuterReplicaOptions base = {};  // what all modes share: n̄, clip_ratio
};

struct OuterLaw {
  OuterMode mode = OuterMode::kOverlap;
  OuterConfig config;  // as the mode has it: τ, δ, α, β
  OuterReplicaOptions replica;
  int32_t fragments = 1;

  // InvalidArgument: τ < 1 or δ outside [0, τ]; fragments outside [1, τ]; kCo2 without a residual
  // buffer, or with a gap below 1. kOverlap leaves `config` and `options.base` as they are.
  static absl::StatusOr<OuterLaw> Of(OuterMode mode, const OuterConfig& config,
                                     const OuterLawOptions& options = {});

  // Of a run's settled configuration, as it says.
  static absl::StatusOr<OuterLaw> Of(const OuterConfig& config);
};

}  // namespace skerry
