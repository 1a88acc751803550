// The cohorts of a plan for people: who is together, and why others are not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "coordinator/run_state.h"

namespace skerry {

// The cohort of a node with others, by its number in its stage; −1: it is alone.
int32_t CohortNumber(const PipelinePlan& plan, const NodeId& node);

// Of every stage: "cohorts" [{"stage", "cohort", "members" (speaker first), "ring_s" (what its sum
// of gradients takes every step, predicted from what is measured now; null: not known)}];
// "speakers", "replicas": how many live, of all stages; "apart": pairs of its replicas that are in
// none together, and why, by what is measured now; at most kApartListedMax.
inline constexpr size_t kApartListedMax = 24;
nlohmann::json CohortsJson(const RunState& state, const RunConfig& config);
// The same as lines; "" where [cluster] groups is off.
std::string CohortsText(const RunState& state, const RunConfig& config);

// A round of this participant's counts for its whole cohort: its members share what the message
// covers, evenly.
void CreditRound(const Participant& participant, const std::optional<PipelinePlan>& plan,
                 std::map<NodeId, RunState::Credit>* credits);

}  // namespace skerry
