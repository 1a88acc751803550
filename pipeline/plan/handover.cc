#include "pipeline/plan/handover.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/check.h"
#include "common/round_clock.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/replan.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

NodeId& NodeAt(PipelinePlan& plan, const Slot& slot) {
  return plan.stages[static_cast<size_t>(slot.stage)].replicas[static_cast<size_t>(slot.replica)];
}

bool CanBeFilled(const PipelinePlan& plan, int32_t stage) {
  return plan.stages[static_cast<size_t>(stage)].replicas.size() > 1 &&
         !LiveReplicas(plan, stage).empty();
}

std::vector<Handover> WaysTo(const PlannerInput& input, const PipelinePlan& plan, int32_t stage,
                             const std::vector<NodeId>& standbys) {
  std::vector<Handover> ways;
  const auto& replicas = plan.stages[static_cast<size_t>(stage)].replicas;
  for (size_t r = 0; r < replicas.size(); ++r) {
    if (!IsDead(plan, replicas[r])) continue;
    for (const NodeId& node : standbys) {
      const auto own = SlotOf(plan, node);
      const Slot slot{stage, static_cast<int32_t>(r)};
      if (own && CanBeFilled(plan, own->stage) &&
          UrgencyOf(plan, own->stage) < UrgencyOf(plan, stage)) {
        continue;
      }
      if (CanHoldSlot(input, plan, stage, node)) ways.push_back({slot, node});
    }
  }
  return ways;
}

}  // namespace

bool KnowsWaysOf(const PipelinePlan& plan, const DeviceProfile& device) {
  return device.spreads || !plan.settings.spreads;
}

bool CanHoldSlot(const PlannerInput& input, const PipelinePlan& plan, int32_t stage,
                 const NodeId& node) {
  const auto device = input.devices.find(node);
  if (device == input.devices.end() || !KnowsWaysOf(plan, device->second)) return false;
  const MemoryOffer offer = OfferOf(device->second);
  return MemoryIn(input.config, plan, stage, offer).FitsIn(offer);
}

std::pair<int64_t, int32_t> UrgencyOf(const PipelinePlan& plan, int32_t stage) {
  const auto live = static_cast<int64_t>(LiveReplicas(plan, stage).size());
  return {stage == 0 ? live : 2 * live, stage};
}

PipelinePlan WithJoiner(const PipelinePlan& plan, const Slot& slot, const NodeId& node,
                        int64_t base_version) {
  PipelinePlan next = plan;
  ++next.version;
  const NodeId gone = NodeAt(next, slot);
  const auto own = SlotOf(plan, node);
  SKERRY_CHECK(IsDead(plan, gone) && (!own || IsDead(plan, node)));
  std::erase(next.dead, own ? node : gone);
  if (own) NodeAt(next, *own) = gone;
  NodeAt(next, slot) = node;
  const Joiner joiner{node, next.version, base_version, -1, -1};
  const auto place =
      std::lower_bound(next.joining.begin(), next.joining.end(), joiner,
                       [](const Joiner& a, const Joiner& b) { return a.node < b.node; });
  next.joining.insert(place, joiner);
  PartMoved(plan, &next);
  return next;
}

int64_t FirstStepAfter(const RunConfig& config, int64_t round) {
  return RoundClock(config).Due(round - 1);
}

PipelinePlan WithFirstStep(const PipelinePlan& plan, const NodeId& node, const RunConfig& config,
                           int64_t round) {
  PipelinePlan next = plan;
  ++next.version;
  const auto joiner = std::find_if(next.joining.begin(), next.joining.end(),
                                   [&](const Joiner& j) { return j.node == node; });
  SKERRY_CHECK(joiner != next.joining.end() && !joiner->IsFixed());
  joiner->from_step = FirstStepAfter(config, round);
  joiner->from_round = RoundClock(config).EndedBy(joiner->from_step);
  return next;
}

std::optional<Handover> ChooseHandover(const PlannerInput& input, const PipelinePlan& plan,
                                       int32_t stage, const std::vector<NodeId>& standbys) {
  std::vector<Handover> ways = WaysTo(input, plan, stage, standbys);
  if (ways.empty()) return std::nullopt;
  const auto gflops = [&](const Handover& way) { return input.devices.at(way.node).gflops; };
  std::stable_sort(ways.begin(), ways.end(), [&](const Handover& a, const Handover& b) {
    const bool own_a = NodeOf(plan, a.slot) == a.node, own_b = NodeOf(plan, b.slot) == b.node;
    return std::tuple(!own_a, -gflops(a), a.slot, a.node) <
           std::tuple(!own_b, -gflops(b), b.slot, b.node);
  });
  ways.resize(std::min(ways.size(), kHandoversTried));
  const bool is_own = NodeOf(plan, ways.front().slot) == ways.front().node;
  if (ways.size() == 1 || is_own || input.links.size() == 0) {
    return ways.front();
  }
  const Handover* best = nullptr;
  double best_s = 0;
  for (const Handover& way : ways) {
    const double step_s = PredictedStepSeconds(input, WithJoiner(plan, way.slot, way.node, 0));
    if (best == nullptr || step_s < best_s) {
      best = &way;
      best_s = step_s;
    }
  }
  return *best;
}

}  // namespace skerry
