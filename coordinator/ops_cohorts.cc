// Cohorts whose members cannot go on together (docs/decisions/0058-clusters.md): one of them
// leaves, by a plan, and is a replica of its own if it lives.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/round_clock.h"
#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"
#include "pipeline/plan/cohorts.h"

namespace skerry {
namespace {

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Whom most others blame; of equals who has not spoken, then the last in slot order.
NodeId MostBlamed(const std::vector<NodeId>& members, const std::map<NodeId, NodeId>& blamed) {
  NodeId most = members.back();
  std::pair<int64_t, bool> worst = {-1, false};
  for (const NodeId& member : members) {
    const auto count = std::count_if(blamed.begin(), blamed.end(), [&](const auto& word) {
      return word.second == member && word.first != member;
    });
    const std::pair<int64_t, bool> is = {count, !blamed.contains(member)};
    if (is >= worst) {
      worst = is;
      most = member;
    }
  }
  return most;
}

}  // namespace

void CoordinatorActor::On(Context& context, const NodeId& from, const CohortBroken& message) {
  const auto stage = StageOf(from);
  if (!stage || *stage != message.stage || state_.finished || !state_.lost.empty())
    return void(++refused_);
  const std::vector<NodeId> members = CohortOf(*state_.plan, from);
  // Of a group that a plan has changed since nothing is left to be mended.
  if (members.size() < 2 || FormationOf(*state_.plan, *stage, members) != message.group) return;
  if (!Contains(members, message.about)) return void(++refused_);
  auto [broken, is_new] = broken_cohorts_.try_emplace(message.group);
  if (is_new) {
    broken->second.since = context.now();
    broken->second.stage = *stage;
    broken->second.why = CleanText(message.why);
  }
  broken->second.blamed[from] = message.about;
  if (broken->second.blamed.size() + 1 >= members.size()) TendCohorts(context);
}

// Decided when all but one have spoken, or after a heartbeat.
void CoordinatorActor::TendCohorts(Context& context) {
  if (broken_cohorts_.empty() || !state_.plan || state_.finished) return;
  const Duration patience = Duration::Seconds(options_.config.heartbeat_s);
  for (auto it = broken_cohorts_.begin(); it != broken_cohorts_.end();) {
    const CoordinatorParts::Broken& broken = it->second;
    const std::vector<NodeId> members = CohortOf(*state_.plan, broken.blamed.begin()->first);
    const bool is_past =
        members.size() < 2 || FormationOf(*state_.plan, broken.stage, members) != it->first;
    const bool is_due =
        broken.blamed.size() + 1 >= members.size() || context.now() - broken.since >= patience;
    if (!is_past && !is_due) {
      ++it;
      continue;
    }
    const CoordinatorParts::Broken over = broken;
    it = broken_cohorts_.erase(it);
    if (is_past) continue;
    PartFromCohort(context, MostBlamed(members, over.blamed), over.stage, over.why);
    if (stopping_) return;
  }
}

// What it said of the messages of those it was with, it says again when they have sent them.
void CoordinatorActor::PartFromCohort(Context& context, const NodeId& node, int32_t stage,
                                      const std::string& why) {
  const std::vector<NodeId> members = CohortOf(*state_.plan, node);
  const int64_t round = state_.RoundsCommitted(stage);
  const PipelinePlan plan =
      WithoutMember(*state_.plan, node, round, round + RoundClock(options_.config).in_flight_max());
  for (auto& [key, holdings] : held_) {
    if (key.first != stage || !holdings.contains(node)) continue;
    for (const NodeId& member : members) {
      if (member != node) holdings.at(node).erase(member);
    }
  }
  context.Event(
      "cohort_parted",
      EventFields(
          {{"node", node.Short()}, {"stage", stage}, {"members", members.size()}, {"why", why}}));
  Record(context, PlanRecord(plan, state_.predicted_step_s, state_.lower_bound_s));
  AnnouncePlan(context,
               absl::StrFormat("%s leaves its cohort in stage %d: %s", node.Short(), stage, why));
  TryCommit(context, stage);
}

}  // namespace skerry
