// The whole model trained in one process, without pipeline, skipping or outer rounds: the reference
// a distributed run is compared with. It reads the same tokens in the same order and computes the
// same bits as the pipeline does with skip_ratio 0 and one replica a stage, on the same devices.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "kernels/backend.h"
#include "model/stage_team.h"
#include "model/token_dataset.h"

namespace skerry {

// step (0-based) and its loss: the mean over its microbatches, nat.
using StepObserver = std::function<void(int64_t step, float loss)>;

// Runs inner steps [0, steps) and returns the parameters in ParameterLayout::ForModel order. The
// learning rate follows config.steps, whatever `steps` is. Blocks until done. `initial`: parameters
// to begin with, in the same order; empty: those of config.seed. `split`: as of StageTeam.
absl::StatusOr<std::vector<float>> TrainLocally(const RunConfig& config, const TokenDataset& data,
                                                std::span<const TeamDevice> devices, int64_t steps,
                                                const StepObserver& observer,
                                                std::span<const float> initial = {},
                                                DeviceSplit split = DeviceSplit::kSequences);
absl::StatusOr<std::vector<float>> TrainLocally(const RunConfig& config, const TokenDataset& data,
                                                Backend* backend, int64_t steps,
                                                const StepObserver& observer);

}  // namespace skerry
