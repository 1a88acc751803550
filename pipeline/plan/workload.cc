#include "pipeline/plan/workload.h"

#include <algorithm>
#include <utility>

#include "pipeline/plan/path_table.h"
#include "routing/cost_model.h"

namespace skerry {

Workload WorkloadOf(const RunConfig& config, const Partition& partition,
                    const std::vector<Path>& paths, int32_t steps_max) {
  Workload workload;
  std::vector<int32_t> first_slot;
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const StageShape& shape = partition.stages[stage];
    first_slot.push_back(workload.slots());
    workload.stage_of_slot.insert(workload.stage_of_slot.end(), static_cast<size_t>(shape.replicas),
                                  static_cast<int32_t>(stage));
    workload.forward_flops.push_back(shape.layers() * LayerForwardFlops(config));
  }
  workload.loss_flops = LossFlops(config);
  workload.in_flight = config.pipeline.in_flight;
  const int32_t per_step = config.pipeline.microbatches_per_step;
  const auto size = static_cast<int32_t>(paths.size());
  workload.steps = std::clamp((size + per_step - 1) / per_step, 2, steps_max);
  for (int32_t i = 0; i < workload.steps * per_step; ++i) {
    Workload::Microbatch microbatch{i / per_step, {}};
    for (const Slot& slot : paths[static_cast<size_t>(i % size)]) {
      microbatch.slots.push_back(first_slot[static_cast<size_t>(slot.stage)] + slot.replica);
    }
    workload.microbatches.push_back(std::move(microbatch));
  }
  return workload;
}

std::vector<Path> PathsOf(const RunConfig& config, const Partition& partition) {
  PathTableInput table{{},
                       config.pipeline.skip_ratio,
                       config.pipeline.swaps,
                       config.pipeline.microbatches_per_step,
                       config.seed};
  for (const StageShape& shape : partition.stages) table.replicas.push_back(shape.replicas);
  return MakePathTable(table);
}

}  // namespace skerry
