#include "coordinator/cohort_listing.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

using Json = nlohmann::json;

CohortInput InputOf(const RunState& state, const RunConfig& config) {
  std::vector<NodeId> nodes;
  for (const auto& [node, record] : state.nodes) nodes.push_back(node);
  CohortInput input{config.cluster, {}, {}, LinkMatrix(nodes)};
  for (const auto& [node, record] : state.nodes) {
    input.devices[node] = record.device;
    input.regions[node] = record.region;
  }
  for (const auto& [pair, reading] : state.links) {
    if (input.links.IndexOf(pair.first) < 0 || input.links.IndexOf(pair.second) < 0) continue;
    input.links.Set(pair.first, pair.second, reading.rtt_s, reading.bytes_per_s);
  }
  return input;
}

Json ApartJson(const RunState& state, const CohortInput& input) {
  Json apart = Json::array();
  for (size_t s = 0; s < state.plan->stages.size(); ++s) {
    const std::vector<NodeId> live = LiveReplicas(*state.plan, static_cast<int32_t>(s));
    for (size_t i = 0; i < live.size(); ++i) {
      for (size_t j = i + 1; j < live.size() && apart.size() < kApartListedMax; ++j) {
        const std::vector<NodeId> cohort = CohortOf(*state.plan, live[i]);
        if (std::find(cohort.begin(), cohort.end(), live[j]) != cohort.end()) continue;
        const std::string why = WhyApart(input, live[i], live[j]);
        apart.push_back({{"stage", s},
                         {"a", live[i].Hex()},
                         {"b", live[j].Hex()},
                         {"why", why.empty() ? "they were not together when the plan was made, or "
                                               "one has left or joined since"
                                             : why}});
      }
    }
  }
  return apart;
}

}  // namespace

int32_t CohortNumber(const PipelinePlan& plan, const NodeId& node) {
  const auto slot = SlotOf(plan, node);
  if (!slot || CohortOf(plan, node).size() < 2) return -1;
  return plan.stages[static_cast<size_t>(slot->stage)].cohorts[static_cast<size_t>(slot->replica)];
}

Json CohortsJson(const RunState& state, const RunConfig& config) {
  Json json = {
      {"groups", config.cluster.groups}, {"cohorts", Json::array()}, {"apart", Json::array()}};
  if (!state.plan || !config.cluster.is_on()) return json;
  const CohortInput input = InputOf(state, config);
  const RunConfig settled = Settled(config, *state.plan);
  size_t speakers = 0, replicas = 0;
  for (int32_t s = 0; s < static_cast<int32_t>(state.plan->stages.size()); ++s) {
    replicas += LiveReplicas(*state.plan, s).size();
    for (const NodeId& speaker : SpeakersAmong(*state.plan, s, LiveReplicas(*state.plan, s))) {
      ++speakers;
      if (CohortNumber(*state.plan, speaker) < 0) continue;
      const std::vector<NodeId> cohort = CohortOf(*state.plan, speaker);
      Json members = Json::array();
      for (const NodeId& member : cohort) members.push_back(member.Hex());
      const double ring_s = RingSeconds(settled, *state.plan, s, cohort, input.links);
      json["cohorts"].push_back({{"stage", s},
                                 {"cohort", CohortNumber(*state.plan, speaker)},
                                 {"members", members},
                                 {"ring_s", std::isfinite(ring_s) ? Json(ring_s) : Json()}});
    }
  }
  json["speakers"] = speakers;
  json["replicas"] = replicas;
  json["apart"] = ApartJson(state, input);
  return json;
}

std::string CohortsText(const RunState& state, const RunConfig& config) {
  if (!config.cluster.is_on()) return "";
  const Json json = CohortsJson(state, config);
  std::string text;
  for (const Json& cohort : json["cohorts"]) {
    text += absl::StrFormat("  cohort %d of stage %d:", cohort["cohort"].get<int>(),
                            cohort["stage"].get<int>());
    const char* after = " (speaks)";
    for (const Json& member : cohort["members"]) {
      text += absl::StrFormat(" %s%s", member.get<std::string>().substr(0, 8), after);
      after = "";
    }
    if (cohort["ring_s"].is_number()) {
      text += absl::StrFormat("; sums gradients in %.3f s a step%s, predicted",
                              cohort["ring_s"].get<double>(),
                              config.cluster.overlap_steps > 0 ? " beside the next" : "");
    }
    text += "\n";
  }
  if (text.empty()) {
    text = "  no cohorts: every replica is one by itself\n";
  } else {
    text += absl::StrFormat("  %d of %d replicas speak in outer rounds\n",
                            json["speakers"].get<int>(), json["replicas"].get<int>());
  }
  for (const Json& pair : json["apart"]) {
    text +=
        absl::StrFormat("  apart in stage %d, %s and %s: %s\n", pair["stage"].get<int>(),
                        pair["a"].get<std::string>().substr(0, 8),
                        pair["b"].get<std::string>().substr(0, 8), pair["why"].get<std::string>());
  }
  return text;
}

void CreditRound(const Participant& participant, const std::optional<PipelinePlan>& plan,
                 std::map<NodeId, RunState::Credit>* credits) {
  std::vector<NodeId> members;
  if (plan) members = CohortOf(*plan, participant.node);
  if (members.size() < 2) members = {participant.node};
  const auto count = static_cast<int64_t>(members.size());
  for (const NodeId& member : members) {
    RunState::Credit& credit = (*credits)[member];
    credit.tokens += participant.tokens / count;
    if (member == participant.node) credit.tokens += participant.tokens % count;
    ++credit.rounds;
  }
}

}  // namespace skerry
