#include "pipeline/plan/plan_model.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "common/status.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/reducer_shares.h"
#include "pipeline/plan/round_bytes.h"
#include "pipeline/plan/slow_links.h"
#include "pipeline/plan/workload.h"
#include "routing/cost_model.h"
#include "routing/node_lines.h"

namespace skerry {
namespace {

constexpr int32_t kPredictSteps = 16;  // as planner.cc

Workload WorkloadOf(const RunConfig& config, const PipelinePlan& plan) {
  Workload workload;
  std::vector<int32_t> first_slot;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageAssignment& assignment = plan.stages[stage];
    first_slot.push_back(workload.slots());
    workload.stage_of_slot.insert(workload.stage_of_slot.end(), assignment.replicas.size(),
                                  static_cast<int32_t>(stage));
    const int32_t layers = assignment.last_layer - assignment.first_layer;
    workload.forward_flops.push_back(layers * LayerForwardFlops(config));
    workload.step_flops.push_back(layers * LayerOptimizerFlops(config));
  }
  workload.loss_flops = LossFlops(config);
  workload.in_flight = config.pipeline.in_flight;
  const int32_t per_step = plan.microbatches_per_step;
  const auto size = static_cast<int32_t>(plan.paths.size());
  workload.steps = std::clamp((size + per_step - 1) / per_step, 2, kPredictSteps);
  for (int32_t i = 0; i < workload.steps * per_step; ++i) {
    Workload::Microbatch microbatch{i / per_step, {}};
    for (const Slot& slot : plan.paths[static_cast<size_t>(i % size)]) {
      microbatch.slots.push_back(first_slot[static_cast<size_t>(slot.stage)] + slot.replica);
    }
    workload.microbatches.push_back(std::move(microbatch));
  }
  return workload;
}

absl::StatusOr<Fleet> FleetOf(const PlannerInput& input, const RunConfig& config,
                              const PipelinePlan& plan, const std::vector<NodeId>& nodes) {
  const size_t n = nodes.size();
  const auto payload = static_cast<double>(BoundaryBytes(config));
  const double share = SlowLinkShare(config);
  Fleet fleet;
  fleet.gflops = SpeedsOf(nodes, input.devices);
  fleet.latency_s.resize(n * n);
  fleet.wire_s.resize(n * n);
  fleet.handling_s = HandlingSeconds(config, input.message_s);
  if (!plan.slow_links.empty()) fleet.share.assign(n * n, 1);
  std::vector<int32_t> index;
  for (const NodeId& node : nodes) {
    index.push_back(input.links.IndexOf(node));
    if (index.back() < 0 && n > 1) {
      return InvalidArgument("node %s is not in the link matrix", node.Short());
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const LinkEstimate& link = input.links.At(index[i], index[j]);
      const double never = std::numeric_limits<double>::infinity();
      fleet.latency_s[i * n + j] = link.usable() ? link.rtt_s / 2 : never;
      fleet.wire_s[i * n + j] = link.usable() ? payload / link.bytes_per_s : never;
      if (!plan.slow_links.empty() &&
          std::binary_search(plan.slow_links.begin(), plan.slow_links.end(),
                             SlowLink{nodes[i], nodes[j]})) {
        fleet.share[i * n + j] = share;
      }
    }
  }
  SetLines(input.links, index, payload, &fleet);
  return fleet;
}

// The cohorts that the plan has: slots of one are near each other, and no others.
NearNodes NearOf(const RunConfig& config, const PipelinePlan& plan, size_t others) {
  std::vector<std::pair<size_t, int32_t>> cohorts;  // of the slots: stage, number
  NearNodes near;
  near.overlap = config.cluster.overlap_steps > 0;
  bool any = false;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageAssignment& held = plan.stages[stage];
    const int32_t layers = held.last_layer - held.first_layer;
    const double bytes = GradientBytes(config, layers, stage == 0);
    near.gradient_boundaries.push_back(bytes / static_cast<double>(BoundaryBytes(config)));
    near.parts.push_back(SumPartsOf(config, layers, stage == 0));
    for (size_t slot = 0; slot < held.replicas.size(); ++slot)
      cohorts.emplace_back(stage, held.cohorts.empty() ? -1 : held.cohorts[slot]);
    any = any || !held.cohorts.empty();
  }
  if (!any) return near;
  cohorts.insert(cohorts.end(), others, {plan.stages.size(), -1});
  for (const auto& one : cohorts) {
    for (const auto& other : cohorts) near.pairs.push_back(one.second >= 0 && one == other);
  }
  return near;
}

}  // namespace

absl::StatusOr<PlanModel> ModelOf(const PlannerInput& input, const PipelinePlan& plan,
                                  const std::vector<NodeId>& others) {
  RunConfig config = Settled(input.config, plan);
  config.outer.reduce = ReduceOf(config, plan.settings.spreads);
  PlanModel model;
  for (const StageAssignment& stage : plan.stages) {
    model.node_of_slot.insert(model.node_of_slot.end(), stage.replicas.begin(),
                              stage.replicas.end());
  }
  std::vector<NodeId> nodes = model.node_of_slot;
  nodes.insert(nodes.end(), others.begin(), others.end());
  std::vector<MemoryOffer> offers;
  for (const NodeId& node : nodes) {
    const auto device = input.devices.find(node);
    if (device == input.devices.end()) {
      return InvalidArgument("node %s has no device profile", node.Short());
    }
    offers.push_back(OfferOf(device->second));
  }
  model.placement.resize(model.node_of_slot.size());
  std::iota(model.placement.begin(), model.placement.end(), 0);
  model.problem.workload = WorkloadOf(config, plan);
  SKERRY_ASSIGN_OR_RETURN(model.problem.fleet, FleetOf(input, config, plan, nodes));
  model.problem.lines = std::make_shared<const NodeLines>(LinesOf(model.problem.fleet));
  model.problem.near = NearOf(config, plan, others.size());
  model.problem.outer.inner_steps = std::max<int64_t>(1, config.outer.inner_steps);
  model.problem.outer.overlap_steps = HidingSteps(config.outer);
  model.problem.outer.fragments = FragmentsOf(config.outer);
  Partition partition;
  for (const StageAssignment& stage : plan.stages) {
    partition.stages.push_back(
        {stage.first_layer, stage.last_layer, static_cast<int32_t>(stage.replicas.size())});
  }
  model.problem.fits = FitsOf(config, partition, offers);
  PutOff(config, partition, offers, &model.problem.fleet);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageAssignment& assignment = plan.stages[stage];
    const int32_t layers = assignment.last_layer - assignment.first_layer;
    ChargeRounds(config, layers, stage == 0, &model.problem.outer);
  }
  return model;
}

}  // namespace skerry
