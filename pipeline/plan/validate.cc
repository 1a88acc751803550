#include "pipeline/plan/validate.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "common/round_clock.h"
#include "common/status.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/safety.h"
#include "pipeline/plan/validate_loads.h"

namespace skerry {
namespace {

// What the configuration leaves open has to be chosen, and nothing else.
absl::Status CheckSettings(const PipelinePlan& plan, const RunConfig& config) {
  const PlannedSettings& settings = plan.settings;
  const PipelineConfig& pipeline = config.pipeline;
  // The configuration may be the settled one: then it says what was chosen.
  const auto check = [&](const char* name, bool is_open, bool is_chosen, bool is_same) {
    if (is_open == is_chosen || (is_chosen && is_same)) return absl::OkStatus();
    return InvalidArgument("%s is %s by the configuration and %s by plan %d", name,
                           is_open ? "left open" : "given", is_chosen ? "chosen" : "not chosen",
                           plan.version);
  };
  const OuterConfig& outer = config.outer;
  SKERRY_RETURN_IF_ERROR(check("inner_steps", outer.inner_steps == 0, settings.inner_steps != 0,
                               settings.inner_steps == outer.inner_steps));
  SKERRY_RETURN_IF_ERROR(check("overlap_steps", outer.overlap_steps < 0,
                               settings.overlap_steps >= 0,
                               settings.overlap_steps == outer.overlap_steps));
  SKERRY_RETURN_IF_ERROR(check("the codec", outer.tier == OuterTier::kAuto, settings.has_codec,
                               settings.codec == outer.codec));
  SKERRY_RETURN_IF_ERROR(
      check("sequences_per_microbatch", pipeline.sequences_per_microbatch == 0,
            settings.sequences_per_microbatch != 0,
            settings.sequences_per_microbatch == pipeline.sequences_per_microbatch));
  SKERRY_RETURN_IF_ERROR(check("in_flight", pipeline.in_flight == 0, settings.in_flight != 0,
                               settings.in_flight == pipeline.in_flight));

  const RunConfig settled = Settled(config, plan);
  const int64_t tau = settled.outer.inner_steps;
  const int64_t delta = settled.outer.overlap_steps;
  if (tau < 1 || delta < 0 || delta > tau) {
    return InvalidArgument(
        "plan %d: want inner steps ≥ 1 and overlap steps from 0 to these, got %d and %d",
        plan.version, tau, delta);
  }
  if (settings.inner_steps != 0 && config.steps % tau != 0) {
    return InvalidArgument("plan %d: %d steps are no multiple of %d inner steps", plan.version,
                           config.steps, tau);
  }
  if (settled.pipeline.in_flight < 1 || settled.pipeline.sequences_per_microbatch < 1 ||
      settings.codec > DeltaCodec::kLast) {
    return InvalidArgument(
        "plan %d: in flight %d, sequences per microbatch %d or codec %d is out of range",
        plan.version, settled.pipeline.in_flight, settled.pipeline.sequences_per_microbatch,
        static_cast<int32_t>(settings.codec));
  }
  const int64_t sequences = int64_t{settings.sequences_per_microbatch} * plan.microbatches_per_step;
  if (settings.sequences_per_microbatch != 0 && pipeline.sequences_per_step != 0 &&
      sequences != pipeline.sequences_per_step) {
    return InvalidArgument("plan %d: %d microbatches of %d sequences are not the %d of a step",
                           plan.version, plan.microbatches_per_step,
                           settings.sequences_per_microbatch, pipeline.sequences_per_step);
  }
  return absl::OkStatus();
}

absl::Status CheckSlowLinks(const PipelinePlan& plan, const std::set<NodeId>& planned) {
  for (size_t i = 0; i < plan.slow_links.size(); ++i) {
    const SlowLink& link = plan.slow_links[i];
    if (i > 0 && !(plan.slow_links[i - 1] < link)) {
      return InvalidArgument("the slow links of plan %d are not sorted, or one comes twice",
                             plan.version);
    }
    if (link.from == link.to || !planned.contains(link.from) || !planned.contains(link.to)) {
      return InvalidArgument("slow link %s -> %s is not between two nodes of plan %d",
                             link.from.Short(), link.to.Short(), plan.version);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAbsent(const PipelinePlan& plan) {
  for (size_t i = 0; i < plan.absent.size(); ++i) {
    const Absence& absence = plan.absent[i];
    if (i > 0 && !(plan.absent[i - 1] < absence)) {
      return InvalidArgument("the absences of plan %d are not sorted, or one comes twice",
                             plan.version);
    }
    if (absence.stage < 0 || static_cast<size_t>(absence.stage) >= plan.stages.size() ||
        absence.round < 0) {
      return InvalidArgument("plan %d: %s is absent from round %d of stage %d, which is none",
                             plan.version, absence.node.Short(), absence.round, absence.stage);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckJoining(const PipelinePlan& plan, const RunConfig& config,
                          const std::set<NodeId>& planned) {
  const RoundClock clock(config);
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
    const int64_t landed = clock.LandedBy(joiner.from_step);
    const bool starts_after_a_commit = joiner.from_step < config.steps && landed > 0 &&
                                       clock.Due(landed - 1) == joiner.from_step &&
                                       joiner.from_round == clock.EndedBy(joiner.from_step);
    if (joiner.IsFixed() && !starts_after_a_commit) {
      return InvalidArgument("joiner %s starts with step %d of round %d, where no round lands",
                             joiner.node.Short(), joiner.from_step, joiner.from_round);
    }
    if (joiner.IsFixed() && joiner.from_round <= joiner.base_version) {
      return InvalidArgument(
          "joiner %s of base %d takes part from round %d on, which it could miss",
          joiner.node.Short(), joiner.base_version, joiner.from_round);
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
    if (next % config.model.layers_together() != 0) {
      return InvalidArgument("stage %d ends at layer %d, where [model] ladder of %d does not", s,
                             next, config.model.ladder);
    }
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
  SKERRY_RETURN_IF_ERROR(CheckSlowLinks(plan, seen));
  SKERRY_RETURN_IF_ERROR(CheckAbsent(plan));
  SKERRY_RETURN_IF_ERROR(CheckCohorts(plan));
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

}  // namespace

absl::Status ValidatePlan(const PipelinePlan& plan, const RunConfig& config) {
  if (plan.version < 0) return InvalidArgument("plan %d: a version is not negative", plan.version);
  SKERRY_RETURN_IF_ERROR(CheckSettings(plan, config));
  const RunConfig settled = Settled(config, plan);
  SKERRY_RETURN_IF_ERROR(CheckStages(plan, settled));
  if (plan.microbatches_per_step != settled.pipeline.microbatches_per_step ||
      plan.microbatches_per_step < 1) {
    return InvalidArgument("the plan has %d microbatches a step, want %d",
                           plan.microbatches_per_step, settled.pipeline.microbatches_per_step);
  }
  if (plan.paths.empty()) return InvalidArgument("plan %d has no paths", plan.version);
  for (size_t i = 0; i < plan.paths.size(); ++i) {
    SKERRY_RETURN_IF_ERROR(CheckPath(plan, settled, i));
  }
  return CheckLoads(plan, settled);
}

absl::Status ValidateNext(const PipelinePlan& before, const PipelinePlan& after) {
  if (after.version != before.version + 1) {
    return InvalidArgument("plan %d follows plan %d, want version %d", after.version,
                           before.version, before.version + 1);
  }
  bool same_stages = before.stages.size() == after.stages.size();
  for (size_t i = 0; same_stages && i < before.stages.size(); ++i) {
    const StageAssignment& old_stage = before.stages[i];
    const StageAssignment& new_stage = after.stages[i];
    same_stages = old_stage.first_layer == new_stage.first_layer &&
                  old_stage.last_layer == new_stage.last_layer &&
                  old_stage.replicas.size() == new_stage.replicas.size();
  }
  if (!same_stages) {
    return InvalidArgument("plan %d has other stages than plan %d", after.version, before.version);
  }
  if (before.paths != after.paths || before.microbatches_per_step != after.microbatches_per_step) {
    return InvalidArgument("plan %d has other paths than plan %d", after.version, before.version);
  }
  if (before.settings != after.settings) {
    return InvalidArgument("plan %d has other settings than plan %d", after.version,
                           before.version);
  }
  for (const Joiner& joiner : after.joining) {
    const auto known = std::find_if(before.joining.begin(), before.joining.end(),
                                    [&](const Joiner& j) { return j.node == joiner.node; });
    const bool is_new = known == before.joining.end() || known->since != joiner.since;
    if (is_new && joiner.since != after.version) {
      return InvalidArgument("joiner %s of plan %d was named by plan %d, where it was not",
                             joiner.node.Short(), after.version, joiner.since);
    }
    if (!is_new && known->IsFixed() && *known != joiner) {
      return InvalidArgument("the first step of joiner %s was fixed before plan %d",
                             joiner.node.Short(), after.version);
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateMemory(const PipelinePlan& plan, const RunConfig& config,
                            const std::map<NodeId, DeviceProfile>& devices) {
  const RunConfig settled = Settled(config, plan);
  const SlotCounts at_most = HeldAtMost(plan, settled.pipeline.in_flight);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageAssignment& stage = plan.stages[s];
    const int32_t held = HeldMax(settled, static_cast<int32_t>(plan.stages[0].replicas.size()),
                                 static_cast<int32_t>(stage.replicas.size()), s == 0);
    for (size_t r = 0; r < stage.replicas.size(); ++r) {
      const NodeId& node = stage.replicas[r];
      const auto it = devices.find(node);
      if (it == devices.end()) return InvalidArgument("node %s has no device", node.Short());
      const MemoryOffer offer = OfferOf(it->second);
      if (offer.IsUnlimited()) continue;
      if (at_most[s][r] > held) {
        return ResourceExhausted(
            "node %s can be sent %d microbatches at once, its memory was reckoned for %d",
            node.Short(), at_most[s][r], held);
      }
      const NodeMemory needs = MemoryIn(settled, plan, static_cast<int32_t>(s), offer);
      if (needs.FitsIn(offer)) continue;
      return ResourceExhausted(
          "node %s has too little memory: stage %d needs %s, margins of %.0f %% "
          "included",
          node.Short(), s, NeedText(needs, offer), 100 * kMemoryMargin);
    }
  }
  return absl::OkStatus();
}

}  // namespace skerry
