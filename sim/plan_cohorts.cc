#include "sim/plan_cohorts.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/plan/round_bytes.h"

namespace skerry {
namespace {

struct CohortShown {
  std::vector<int64_t> nodes;  // speaker first, as counted in the topology
  double ring_s = 0;
};

struct Planned {
  std::vector<std::vector<CohortShown>> stages;
  size_t speakers = 0, replicas = 0;
  double round_bytes = 0, alone_bytes = 0;
};

std::vector<CohortShown> CohortsOfStage(const PlanComparison& comparison, const RunConfig& settled,
                                        int32_t stage) {
  const PlannerInput& input = comparison.topology.input;
  std::vector<CohortShown> cohorts;
  for (const NodeId& speaker : HearersOf(comparison.plan, stage)) {
    const std::vector<NodeId> members = CohortOf(comparison.plan, speaker);
    CohortShown& cohort = cohorts.emplace_back();
    for (const NodeId& node : members) {
      const auto at = std::lower_bound(input.nodes.begin(), input.nodes.end(), node);
      cohort.nodes.push_back(at - input.nodes.begin() + 1);
    }
    cohort.ring_s = RingSeconds(settled, comparison.plan, stage, members, input.links);
  }
  return cohorts;
}

Planned PlannedOf(const PlanComparison& comparison) {
  const RunConfig settled = Settled(comparison.topology.input.config, comparison.plan);
  Planned planned;
  for (size_t stage = 0; stage < comparison.plan.stages.size(); ++stage) {
    const StageAssignment& held = comparison.plan.stages[stage];
    const size_t replicas = held.replicas.size();
    const auto to_each = [&](size_t parties) {
      return RoundBytesToEach(settled, held.last_layer - held.first_layer, stage == 0, parties);
    };
    const std::vector<CohortShown>& cohorts = planned.stages.emplace_back(
        CohortsOfStage(comparison, settled, static_cast<int32_t>(stage)));
    size_t apart = 0;  // pairs
    for (const CohortShown& cohort : cohorts)
      apart += cohort.nodes.size() * (replicas - cohort.nodes.size());
    planned.speakers += cohorts.size();
    planned.replicas += replicas;
    planned.round_bytes +=
        to_each(cohorts.size()) * static_cast<double>(cohorts.size() * (cohorts.size() - 1));
    planned.alone_bytes += to_each(replicas) * static_cast<double>(apart);
  }
  return planned;
}

}  // namespace

std::string PlannedCohortsText(const PlanComparison& comparison) {
  if (!comparison.topology.input.config.cluster.is_on()) return "";
  const Planned planned = PlannedOf(comparison);
  std::string text;
  for (size_t stage = 0; stage < planned.stages.size(); ++stage) {
    std::vector<std::string> cohorts;
    for (const CohortShown& cohort : planned.stages[stage]) {
      cohorts.push_back(absl::StrJoin(cohort.nodes, " "));
      if (cohort.nodes.size() > 1) cohorts.back() += absl::StrFormat(" (%.3f s)", cohort.ring_s);
    }
    text += absl::StrFormat("cohorts of stage %d (a ring's seconds): %s\n", stage,
                            absl::StrJoin(cohorts, " | "));
  }
  constexpr double kMegabyte = 1e6;
  const double ring_s = comparison.plans.front().ring_s;
  const bool overlaps = comparison.topology.input.config.cluster.overlap_steps > 0;
  const std::string sums =
      overlaps ? absl::StrFormat("sums of gradients take %.3f s beside the next step", ring_s)
               : absl::StrFormat("a step waits %.3f s for sums of gradients", ring_s);
  return text + absl::StrFormat(
                    "%d of %d replicas speak: %.1f MB of deltas a round, %.1f if each did; %s\n",
                    planned.speakers, planned.replicas, planned.round_bytes / kMegabyte,
                    planned.alone_bytes / kMegabyte, sums);
}

nlohmann::ordered_json PlannedCohortsJson(const PlanComparison& comparison) {
  if (!comparison.topology.input.config.cluster.is_on()) return nullptr;
  const Planned planned = PlannedOf(comparison);
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const std::vector<CohortShown>& stage : planned.stages) {
    nlohmann::ordered_json& cohorts = stages.emplace_back(nlohmann::ordered_json::array());
    for (const CohortShown& cohort : stage)
      cohorts.push_back({{"nodes", cohort.nodes}, {"ring_s", cohort.ring_s}});
  }
  return {{"groups", comparison.topology.input.config.cluster.groups},
          {"speakers", planned.speakers},
          {"replicas", planned.replicas},
          {"ring_s", comparison.plans.front().ring_s},
          {"round_bytes", planned.round_bytes},
          {"alone_bytes", planned.alone_bytes},
          {"stages", stages}};
}

}  // namespace skerry
