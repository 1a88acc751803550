#include "pipeline/plan/workload.h"

#include <algorithm>
#include <utility>

#include "pipeline/plan/memory_model.h"
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
    workload.step_flops.push_back(shape.layers() * LayerOptimizerFlops(config));
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

std::vector<double> RepeatsOf(const RunConfig& config, const Partition& partition,
                              const std::vector<int64_t>& memory_bytes) {
  const size_t nodes = memory_bytes.size();
  std::vector<double> repeats(partition.stages.size() * nodes);
  bool any = false;
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const StageShape& shape = partition.stages[stage];
    const bool ends = stage == 0;
    const StageHolds holds = HoldsOf(config, partition.stages[0].replicas, shape.replicas, ends);
    const int64_t plenty = config.pipeline.recompute == Recompute::kAuto
                               ? MemoryOf(config, shape.layers(), ends, holds).needed()
                               : 0;
    for (size_t node = 0; node < nodes; ++node) {
      if (plenty > 0 && (memory_bytes[node] == 0 || memory_bytes[node] >= plenty)) continue;
      const StageHolds fitted =
          FittedHolds(config, shape.layers(), ends, holds, memory_bytes[node]);
      repeats[stage * nodes + node] = RepeatShare(config, shape.layers(), fitted);
      any = any || fitted.recomputed > 0;
    }
  }
  if (!any) repeats.clear();
  return repeats;
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
