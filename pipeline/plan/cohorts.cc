#include "pipeline/plan/cohorts.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "common/bytes.h"
#include "common/cluster_groups.h"
#include "common/digest.h"
#include "common/status.h"
#include "pipeline/plan/round_bytes.h"
#include "pipeline/plan/route.h"
#include "routing/stage_traffic.h"

namespace skerry {
namespace {

const StageAssignment& StageAt(const PipelinePlan& plan, int32_t stage) {
  return plan.stages[static_cast<size_t>(stage)];
}

int32_t FreshCohort(const StageAssignment& stage) {
  return 1 + *std::max_element(stage.cohorts.begin(), stage.cohorts.end());
}

}  // namespace

std::vector<NodeId> CohortOf(const PipelinePlan& plan, const NodeId& node) {
  const auto slot = SlotOf(plan, node);
  if (!slot || IsDead(plan, node)) return {};
  const StageAssignment& stage = StageAt(plan, slot->stage);
  if (stage.cohorts.empty()) return {node};
  std::vector<NodeId> members;
  for (size_t i = 0; i < stage.replicas.size(); ++i) {
    const bool is_in = stage.cohorts[i] == stage.cohorts[static_cast<size_t>(slot->replica)];
    if (is_in && !IsDead(plan, stage.replicas[i])) members.push_back(stage.replicas[i]);
  }
  return members;
}

uint64_t FormationOf(const PipelinePlan& plan, int32_t stage, const std::vector<NodeId>& members) {
  Bytes named;
  for (const int64_t number : {plan.start.since, int64_t{stage}}) {
    for (int shift = 0; shift < 64; shift += 8)
      named.push_back(static_cast<uint8_t>(number >> shift));
  }
  for (const NodeId& node : members)
    named.insert(named.end(), node.bytes.begin(), node.bytes.end());
  const Digest digest = DigestOf(std::span<const uint8_t>(named));
  uint64_t formation = 0;
  std::memcpy(&formation, digest.bytes.data(), sizeof formation);
  return std::max<uint64_t>(formation, 1);
}

std::vector<NodeId> SpeakersAmong(const PipelinePlan& plan, int32_t stage,
                                  const std::vector<NodeId>& replicas) {
  const StageAssignment& assignment = StageAt(plan, stage);
  if (assignment.cohorts.empty()) return replicas;
  std::vector<NodeId> speakers;
  std::set<int32_t> spoken_for;
  for (const NodeId& node : replicas) {
    const auto at = std::find(assignment.replicas.begin(), assignment.replicas.end(), node);
    if (at == assignment.replicas.end()) continue;
    const auto slot = static_cast<size_t>(at - assignment.replicas.begin());
    if (spoken_for.insert(assignment.cohorts[slot]).second) speakers.push_back(node);
  }
  return speakers;
}

std::vector<NodeId> HearersOf(const PipelinePlan& plan, int32_t stage) {
  return SpeakersAmong(plan, stage, Holders(plan, stage));
}

PipelinePlan WithoutMember(const PipelinePlan& plan, const NodeId& node, int64_t first_round,
                           int64_t end_round) {
  PipelinePlan next = plan;
  ++next.version;
  const auto slot = SlotOf(plan, node);
  if (!slot) return next;
  StageAssignment& stage = next.stages[static_cast<size_t>(slot->stage)];
  if (stage.cohorts.empty()) return next;
  stage.cohorts[static_cast<size_t>(slot->replica)] = FreshCohort(stage);
  for (int64_t round = first_round; round < end_round; ++round) {
    const Absence absence{slot->stage, round, node};
    if (!std::binary_search(plan.absent.begin(), plan.absent.end(), absence))
      next.absent.push_back(absence);
  }
  std::sort(next.absent.begin(), next.absent.end());
  return next;
}

void PartMoved(const PipelinePlan& before, PipelinePlan* plan) {
  for (size_t s = 0; s < plan->stages.size() && s < before.stages.size(); ++s) {
    StageAssignment& stage = plan->stages[s];
    for (size_t i = 0; i < stage.cohorts.size(); ++i) {
      const Joiner* joiner = JoinerOf(*plan, stage.replicas[i]);
      const bool joins = joiner != nullptr && joiner->since == plan->version;
      if (joins || stage.replicas[i] != before.stages[s].replicas[i])
        stage.cohorts[i] = FreshCohort(stage);
    }
  }
}

std::string WhyApart(const CohortInput& input, const NodeId& a, const NodeId& b) {
  const auto first = input.devices.find(a), second = input.devices.find(b);
  if (first == input.devices.end() || second == input.devices.end()) return "one is not here";
  const DeviceProfile &one = first->second, &other = second->second;
  if (one.numeric_profile != other.numeric_profile) {
    return absl::StrFormat("they compute other bits: %s, and %s", one.numeric_profile,
                           other.numeric_profile);
  }
  if (!one.network.empty() && !other.network.empty() && one.network != other.network)
    return absl::StrFormat("their network cards are %s and %s", one.network, other.network);
  if (input.cluster.groups != "measured") {
    const auto groups = ParseClusterGroups(input.cluster.groups);
    if (!groups.ok()) return ErrorText(groups.status());
    const auto region = [&](const NodeId& node) {
      const auto known = input.regions.find(node);
      return known == input.regions.end() ? std::string() : known->second;
    };
    const int group = GroupOf(*groups, a, region(a));
    return group >= 0 && group == GroupOf(*groups, b, region(b))
               ? ""
               : "[cluster] groups does not name them together";
  }
  const int32_t from = input.links.IndexOf(a), to = input.links.IndexOf(b);
  if (from < 0 || to < 0) return "the link between them is not measured";
  for (const LinkEstimate& link : {input.links.At(from, to), input.links.At(to, from)}) {
    constexpr double kBytesPerMbit = 125'000;
    const double mbps = link.bytes_per_s / kBytesPerMbit, rtt_ms = 1000 * link.rtt_s;
    if (!link.usable()) return "the link between them is not measured, or doubted";
    if (mbps < double{input.cluster.rate_mbps_min}) {
      return absl::StrFormat("%.0f Mbit/s between them, rate_mbps_min is %g", mbps,
                             input.cluster.rate_mbps_min);
    }
    if (rtt_ms > double{input.cluster.rtt_ms_max}) {
      return absl::StrFormat("a round trip of %.2f ms between them, rtt_ms_max is %g", rtt_ms,
                             input.cluster.rtt_ms_max);
    }
  }
  return "";
}

NearPairs NearPairsOf(const CohortInput& input) {
  if (!input.cluster.is_on()) return {};
  const std::vector<NodeId>& nodes = input.links.nodes();
  NearPairs near(nodes.size() * nodes.size());
  bool any = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!WhyApart(input, nodes[i], nodes[j]).empty()) continue;
      near[i * nodes.size() + j] = near[j * nodes.size() + i] = 1;
      any = true;
    }
  }
  return any ? near : NearPairs();
}

void SetCohorts(const NearPairs& near, const LinkMatrix& links, PipelinePlan* plan) {
  for (StageAssignment& stage : plan->stages) {
    stage.cohorts.clear();
    if (near.empty()) continue;
    std::vector<size_t> index;
    for (const NodeId& node : stage.replicas)
      index.push_back(static_cast<size_t>(links.IndexOf(node)));
    const auto nodes = static_cast<size_t>(links.size());
    stage.cohorts = CohortNumbers(
        index.size(), [&](size_t a, size_t b) { return near[index[a] * nodes + index[b]] != 0; });
    const std::set<int32_t> apart(stage.cohorts.begin(), stage.cohorts.end());
    if (apart.size() == stage.replicas.size()) stage.cohorts.clear();
  }
}

void SetCohorts(const CohortInput& input, PipelinePlan* plan) {
  SetCohorts(NearPairsOf(input), input.links, plan);
}

double RingSeconds(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                   const std::vector<NodeId>& members, const LinkMatrix& links) {
  const StageAssignment& held = StageAt(plan, stage);
  const double bytes = GradientBytes(config, held.last_layer - held.first_layer, stage == 0);
  std::vector<RingLink> ring;
  for (size_t i = 0; i < members.size(); ++i) {
    const int32_t from = links.IndexOf(members[i]);
    const int32_t to = links.IndexOf(members[(i + 1) % members.size()]);
    if (from == to) return 0;
    if (from < 0 || to < 0 || !links.At(from, to).usable())
      return std::numeric_limits<double>::infinity();
    const LinkEstimate& link = links.At(from, to);
    ring.push_back({bytes / link.bytes_per_s, link.rtt_s / 2});
  }
  return RingSeconds(ring);
}

absl::Status CheckCohorts(const PipelinePlan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageAssignment& stage = plan.stages[s];
    if (!stage.cohorts.empty() && stage.cohorts.size() != stage.replicas.size()) {
      return InvalidArgument("stage %d of plan %d has cohorts for %d of %d slots", s, plan.version,
                             stage.cohorts.size(), stage.replicas.size());
    }
    for (const int32_t cohort : stage.cohorts) {
      if (cohort < 0) return InvalidArgument("stage %d: want cohorts from 0, got %d", s, cohort);
    }
  }
  return absl::OkStatus();
}

}  // namespace skerry
