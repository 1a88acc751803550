#include "pipeline/plan/validate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "common/status.h"
#include "pipeline/plan/memory_model.h"

namespace skerry {
namespace {

absl::Status CheckJoining(const PipelinePlan& plan, const RunConfig& config,
                          const std::set<NodeId>& planned) {
  const int64_t tau = std::max<int64_t>(1, config.outer.inner_steps);
  const NodeId* last = nullptr;
  for (const Joiner& joiner : plan.joining) {
    if (last != nullptr && !(*last < joiner.node)) {
      return InvalidArgument("the joiners of plan %d are not sorted", plan.version);
    }
    last = &joiner.node;
    if (!planned.contains(joiner.node) ||
        std::binary_search(plan.dead.begin(), plan.dead.end(), joiner.node)) {
      return InvalidArgument("joiner %s is dead or has no slot", joiner.node.Short());
    }
    if (joiner.since > plan.version || joiner.since < 1 || joiner.base_version < 0) {
      return InvalidArgument("joiner %s was named by plan %d, this is plan %d", joiner.node.Short(),
                             joiner.since, plan.version);
    }
    const bool starts_after_a_commit = joiner.from_step >= config.outer.overlap_steps &&
                                       (joiner.from_step - config.outer.overlap_steps) % tau == 0 &&
                                       joiner.from_step < config.steps &&
                                       joiner.from_round == joiner.from_step / tau;
    if (joiner.IsFixed() && !starts_after_a_commit) {
      return InvalidArgument("joiner %s starts with step %d of round %d, where no round lands",
                             joiner.node.Short(), joiner.from_step, joiner.from_round);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const PipelinePlan& plan, const RunConfig& config) {
  if (plan.stages.empty()) return InvalidArgument("plan %d has no stages", plan.version);
  std::set<NodeId> seen;
  int32_t next = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageAssignment& stage = plan.stages[s];
    if (stage.first_layer != next || stage.last_layer <= stage.first_layer) {
      return InvalidArgument("stage %d holds layers [%d, %d), want them to go on from %d", s,
                             stage.first_layer, stage.last_layer, next);
    }
    next = stage.last_layer;
    if (stage.replicas.empty()) return InvalidArgument("stage %d has no replica", s);
    for (const NodeId& node : stage.replicas) {
      if (!seen.insert(node).second) {
        return InvalidArgument("node %s fills two slots", node.Short());
      }
    }
  }
  if (next != config.model.layers) {
    return InvalidArgument("the stages hold %d of %d layers", next, config.model.layers);
  }
  if (!std::is_sorted(plan.dead.begin(), plan.dead.end())) {
    return InvalidArgument("the dead of plan %d are not sorted", plan.version);
  }
  for (const NodeId& node : plan.dead) {
    if (!seen.contains(node)) return InvalidArgument("dead node %s is not planned", node.Short());
  }
  return CheckJoining(plan, config, seen);
}

// Pairs of stages of a path that are out of order; an exchange of neighbours makes one.
int32_t Inversions(const Path& path) {
  int32_t count = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    for (size_t j = i + 1; j < path.size(); ++j) count += path[i].stage > path[j].stage ? 1 : 0;
  }
  return count;
}

absl::Status CheckPath(const PipelinePlan& plan, const RunConfig& config, size_t index) {
  const Path& path = plan.paths[index];
  if (path.empty() || path.front().stage != 0) {
    return InvalidArgument("path %d does not start at stage 0", index);
  }
  std::set<int32_t> stages;
  for (const Slot& slot : path) {
    const bool exists = slot.stage >= 0 && static_cast<size_t>(slot.stage) < plan.stages.size() &&
                        slot.replica >= 0 &&
                        static_cast<size_t>(slot.replica) <
                            plan.stages[static_cast<size_t>(slot.stage)].replicas.size();
    if (!exists) {
      return InvalidArgument("path %d visits slot %d/%d, which does not exist", index, slot.stage,
                             slot.replica);
    }
    if (!stages.insert(slot.stage).second) {
      return InvalidArgument("path %d visits stage %d twice", index, slot.stage);
    }
  }
  if (Inversions(path) > config.pipeline.swaps) {
    return InvalidArgument("path %d exchanges more than %d neighbours", index,
                           config.pipeline.swaps);
  }
  return absl::OkStatus();
}

bool IsBalanced(const std::vector<int64_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least == 0) return false;
  const double ratio = static_cast<double>(*most) / static_cast<double>(*least);
  return ratio <= kParticipationRatioMax || *most - *least <= 1;
}

absl::Status CheckBalance(const PipelinePlan& plan, const RunConfig& config) {
  std::vector<std::vector<int64_t>> visits;
  for (const StageAssignment& stage : plan.stages) visits.emplace_back(stage.replicas.size());
  int64_t skipped = 0;
  for (const Path& path : plan.paths) {
    skipped += static_cast<int64_t>(plan.stages.size() - path.size());
    for (const Slot& slot : path) {
      ++visits[static_cast<size_t>(slot.stage)][static_cast<size_t>(slot.replica)];
    }
  }
  std::vector<int64_t> participation;
  for (size_t s = 0; s < visits.size(); ++s) {
    if (!IsBalanced(visits[s])) {
      return InvalidArgument("the replicas of stage %d carry unequal loads", s);
    }
    int64_t total = 0;
    for (const int64_t count : visits[s]) total += count;
    if (s > 0) participation.push_back(total);
  }
  if (participation.empty()) return absl::OkStatus();
  if (!IsBalanced(participation)) {
    return InvalidArgument("stages after stage 0 do not take part equally often");
  }
  const double wanted = config.pipeline.skip_ratio * static_cast<double>(plan.stages.size() - 1);
  const double average = static_cast<double>(skipped) / static_cast<double>(plan.paths.size());
  // A table that cannot hold whole cycles of its mix is off by one skip at most.
  const double slack = 1.0 / 32 + 1.0 / static_cast<double>(plan.paths.size());
  if (std::abs(average - wanted) > slack) {
    return InvalidArgument("paths skip %.3f stages on average, want %.3f", average, wanted);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePlan(const PipelinePlan& plan, const RunConfig& config) {
  SKERRY_RETURN_IF_ERROR(CheckStages(plan, config));
  if (plan.microbatches_per_step != config.pipeline.microbatches_per_step) {
    return InvalidArgument("the plan has %d microbatches a step, want %d",
                           plan.microbatches_per_step, config.pipeline.microbatches_per_step);
  }
  if (plan.paths.empty()) return InvalidArgument("plan %d has no paths", plan.version);
  for (size_t i = 0; i < plan.paths.size(); ++i) {
    SKERRY_RETURN_IF_ERROR(CheckPath(plan, config, i));
  }
  return CheckBalance(plan, config);
}

absl::Status ValidateMemory(const PipelinePlan& plan, const RunConfig& config,
                            const std::map<NodeId, DeviceProfile>& devices) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageAssignment& stage = plan.stages[s];
    const int64_t needs = StageNeeds(config, plan, static_cast<int32_t>(s)).needed();
    for (const NodeId& node : stage.replicas) {
      const auto it = devices.find(node);
      if (it == devices.end()) return InvalidArgument("node %s has no device", node.Short());
      const int64_t has = it->second.memory_bytes;
      if (has == 0 || needs <= has) continue;
      return ResourceExhausted(
          "node %s has %s, stage %d needs %s with a margin of %.0f %%: %s missing", node.Short(),
          BytesText(has), s, BytesText(needs), 100 * kMemoryMargin, BytesText(needs - has));
    }
  }
  return absl::OkStatus();
}

}  // namespace skerry
