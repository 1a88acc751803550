#include "pipeline/plan/workload.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pipeline/plan/message_cost.h"
#include "pipeline/plan/path_table.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

// What a stage takes of nodes, with the ways in which they may hold it, reckoned once for each kind
// of them: of thousands there are few.
class NeedsByKind {
 public:
  using Ways = std::function<std::vector<StageHolds>(const MemoryOffer&)>;
  NeedsByKind(const RunConfig& config, const StageShape& shape, bool ends, Ways ways)
      : config_(config), shape_(shape), ends_(ends), ways_(std::move(ways)) {}

  bool Fit(const MemoryOffer& offer) {
    const std::vector<NodeMemory>& needs = Of(offer);
    return std::any_of(needs.begin(), needs.end(),
                       [&](const NodeMemory& need) { return need.FitsIn(offer); });
  }

 private:
  const std::vector<NodeMemory>& Of(const MemoryOffer& offer) {
    for (const auto& [kind, needs] : known_) {
      if (kind.IsOfKindOf(offer)) return needs;
    }
    auto& [kind, needs] = known_.emplace_back(offer, std::vector<NodeMemory>());
    for (const StageHolds& holds : ways_(offer))
      needs.push_back(MemoryIn(config_, shape_.layers(), ends_, holds, offer));
    return needs;
  }

  const RunConfig& config_;
  const StageShape& shape_;
  bool ends_;
  Ways ways_;
  std::vector<std::pair<MemoryOffer, std::vector<NodeMemory>>> known_;
};

}  // namespace

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

double HandlingSeconds(const RunConfig& config, double message_s) {
  const auto payload = static_cast<double>(BoundaryBytes(config));
  return payload * kHandlingSecondsPerByte * (message_s / kMessageSeconds);
}

void PutOff(const RunConfig& config, const Partition& partition,
            const std::vector<MemoryOffer>& offers, Fleet* fleet) {
  const size_t nodes = offers.size();
  fleet->repeats.assign(partition.stages.size() * nodes, 0);
  fleet->host_step_s.assign(partition.stages.size() * nodes, 0);
  bool recomputes = false, offloads = false;
  const PipelineConfig& pipeline = config.pipeline;
  const bool when_short = pipeline.recompute != Recompute::kAlways &&
                          pipeline.offload != Offload::kAlways &&
                          pipeline.offload_activations != Offload::kAlways;
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const StageShape& shape = partition.stages[stage];
    const bool ends = stage == 0;
    const StageHolds holds = HoldsOf(config, partition.stages[0].replicas, shape.replicas, ends);
    NeedsByKind plenty(config, shape, ends,
                       [&](const MemoryOffer&) { return std::vector<StageHolds>{holds}; });
    const auto parameters =
        static_cast<double>(StageParameters(config.model, shape.layers(), ends));
    for (size_t node = 0; node < nodes; ++node) {
      const MemoryOffer& offer = offers[node];
      if (when_short && plenty.Fit(offer)) continue;
      const StageHolds fitted = FittedHolds(config, shape.layers(), ends, holds, offer);
      double& repeats = fleet->repeats[stage * nodes + node];
      repeats = PutOffShare(config, shape.layers(), ends, fitted, offer);
      recomputes = recomputes || repeats > 0;
      if (!fitted.offloads) continue;
      fleet->host_step_s[stage * nodes + node] = kOffloadSeconds * parameters;
      offloads = true;
    }
  }
  if (!recomputes) fleet->repeats.clear();
  if (!offloads) fleet->host_step_s.clear();
}

std::vector<uint8_t> FitsOf(const RunConfig& config, const Partition& partition,
                            const std::vector<MemoryOffer>& offers) {
  std::vector<uint8_t> fits;
  bool all = true;
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const StageShape& shape = partition.stages[stage];
    const bool ends = stage == 0;
    const StageHolds holds = HoldsOf(config, partition.stages[0].replicas, shape.replicas, ends);
    NeedsByKind least(config, shape, ends, [&](const MemoryOffer& offer) {
      return LeastHolds(config, shape.layers(), holds, offer);
    });
    for (const MemoryOffer& offer : offers) {
      const bool parks = MayPark(config, offer);
      fits.push_back(least.Fit(offer) ||
                     (parks && CanHold(config, shape.layers(), ends, holds, offer)));
      all = all && fits.back() != 0;
    }
  }
  if (all) fits.clear();
  return fits;
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
