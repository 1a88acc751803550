#include "localsgd/outer_law.h"

#include "common/round_clock.h"
#include "common/status.h"

namespace skerry {
namespace {

absl::Status CheckCo2(const OuterConfig& config, const OuterLawOptions& options) {
  if (config.residual != ResidualPlace::kBuffer) {
    return InvalidArgument("co2 restarts its weights, so they cannot hold what was not sent");
  }
  if (options.gap != 0 && !(options.gap >= 1)) {
    return InvalidArgument("co2: want a gap of at least 1, got %g", options.gap);
  }
  if (!(options.momentum_clip >= 0)) {
    return InvalidArgument("co2: want a momentum clip of at least 0, got %g",
                           options.momentum_clip);
  }
  return absl::OkStatus();
}

void MakeCo2(const OuterLawOptions& options, OuterLaw* law) {
  law->replica.restart = true;
  law->replica.rule = OuterRule::kHeavyBall;
  law->replica.staleness = 1;
  law->replica.gap = options.gap;
  law->replica.momentum_clip = options.momentum_clip;
}

}  // namespace

absl::StatusOr<OuterLaw> OuterLaw::Of(OuterMode mode, const OuterConfig& config,
                                      const OuterLawOptions& options) {
  const int64_t tau = config.inner_steps, delta = config.overlap_steps;
  if (tau < 1 || delta < 0 || delta > tau) {
    return InvalidArgument("outer: want 0 <= overlap_steps <= inner_steps, got %d of %d", delta,
                           tau);
  }
  OuterLaw law = {.mode = mode, .config = config, .replica = options.base, .fragments = 1};
  law.config.mode = mode;
  if (mode == OuterMode::kDataParallel) law.config.inner_steps = 1;
  law.config = EffectiveOuter(law.config);
  switch (mode) {
    case OuterMode::kOverlap:
    case OuterMode::kSynchronous:
    case OuterMode::kDataParallel:
      break;
    case OuterMode::kCo2:
      SKERRY_RETURN_IF_ERROR(CheckCo2(config, options));
      MakeCo2(options, &law);
      break;
    case OuterMode::kStreaming:
      if (options.fragments < 1 || options.fragments > tau) {
        return InvalidArgument("streaming: want 1 to %d fragments, got %d", tau, options.fragments);
      }
      law.fragments = options.fragments;
      break;
  }
  return law;
}

absl::StatusOr<OuterLaw> OuterLaw::Of(const OuterConfig& config) {
  return Of(config.mode, config,
            {.fragments = FragmentsOf(config),
             .momentum_clip = config.momentum_clip,
             .gap = double{config.gap}});
}

}  // namespace skerry
