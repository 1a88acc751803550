#include "wire/message/pipeline_plan.h"

namespace skerry {

RunConfig Settled(RunConfig config, const PipelinePlan& plan) {
  const PlannedSettings& settings = plan.settings;
  if (settings.inner_steps > 0) config.outer.inner_steps = settings.inner_steps;
  if (settings.overlap_steps >= 0) config.outer.overlap_steps = settings.overlap_steps;
  if (settings.has_codec) config.outer.codec = settings.codec;
  if (settings.has_codec) config.outer.tier = OuterTier::kCustom;
  PipelineConfig& pipeline = config.pipeline;
  if (settings.sequences_per_microbatch > 0) {
    pipeline.sequences_per_microbatch = settings.sequences_per_microbatch;
    pipeline.sequences_per_step = 0;
    pipeline.microbatches_per_step = plan.microbatches_per_step;
  }
  if (settings.in_flight > 0) pipeline.in_flight = settings.in_flight;
  return config;
}

}  // namespace skerry
