#include "model/local_run.h"

#include <iterator>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

struct HostBuffers {
  std::vector<int32_t> tokens, targets;  // [T]
  explicit HostBuffers(const RunConfig& config) {
    const auto count = static_cast<size_t>(config.pipeline.sequences_per_microbatch) *
                       static_cast<size_t>(config.model.context);
    tokens.resize(count);
    targets.resize(count);
  }
};

absl::StatusOr<float> TrainMicrobatch(const RunConfig& config, const TokenDataset& data,
                                      MicrobatchKey key, StageTeam& trainer, HostBuffers& host) {
  SKERRY_RETURN_IF_ERROR(
      data.ReadMicrobatch(config, key.step, key.microbatch, host.tokens, host.targets));
  SKERRY_RETURN_IF_ERROR(trainer.ForwardFirst(key, host.tokens, {}));
  SKERRY_ASSIGN_OR_RETURN(const float loss, trainer.Loss(key, {}, host.targets, {}));
  SKERRY_RETURN_IF_ERROR(trainer.Backward(key, {}, {}));
  trainer.Accumulate(key);
  return loss;
}

}  // namespace

absl::StatusOr<std::vector<float>> TrainLocally(const RunConfig& config, const TokenDataset& data,
                                                Backend* backend, int64_t steps,
                                                const StepObserver& observer) {
  return TrainLocally(config, data, std::vector{TeamDevice{backend}}, steps, observer);
}

absl::StatusOr<std::vector<float>> TrainLocally(const RunConfig& config, const TokenDataset& data,
                                                std::span<const TeamDevice> devices, int64_t steps,
                                                const StepObserver& observer,
                                                std::span<const float> initial, DeviceSplit split) {
  SKERRY_ASSIGN_OR_RETURN(
      const auto trainer,
      StageTeam::Create(config, {0, config.model.layers, true, 0, split}, devices));
  if (!initial.empty()) {
    SKERRY_CHECK(std::ssize(initial) == trainer->layout().size());
    trainer->WriteParameters(initial);
  }
  HostBuffers host(config);
  const int32_t microbatches = config.pipeline.microbatches_per_step;
  for (int64_t step = 0; step < steps; ++step) {
    double sum = 0;
    for (int32_t m = 0; m < microbatches; ++m) {
      SKERRY_ASSIGN_OR_RETURN(const float loss,
                              TrainMicrobatch(config, data, {step, m}, *trainer, host));
      sum += loss;
    }
    SKERRY_RETURN_IF_ERROR(trainer->OptimizerStep(step, microbatches));
    if (observer) observer(step, static_cast<float>(sum / microbatches));
  }
  std::vector<float> parameters(static_cast<size_t>(trainer->layout().size()));
  trainer->ReadParameters(parameters);
  return parameters;
}

}  // namespace skerry
