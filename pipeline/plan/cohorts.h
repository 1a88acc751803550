// Cohorts (StageAssignment::cohorts): replicas of a stage that are near each other and train as one
// (docs/decisions/0058-clusters.md). Who speaks for whom is a function of the plan, so nobody
// elects: the first living member, and after it the next. A cohort only shrinks: whoever joins, is
// moved or cannot follow is one by itself.
//
// Pure; any thread. Without cohorts each replica is its own speaker.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/run_config.h"
#include "routing/topology.h"
#include "wire/message/device_profile.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// Living members of the node's cohort in slot order, the speaker first; the node alone if it is in
// none. Empty: it is dead, or has no slot.
std::vector<NodeId> CohortOf(const PipelinePlan& plan, const NodeId& node);
// The number of a group of these members: as a cohort only shrinks they never come again.
uint64_t FormationOf(const PipelinePlan& plan, int32_t stage, const std::vector<NodeId>& members);

// Of these replicas of a stage those that speak, in their order.
std::vector<NodeId> SpeakersAmong(const PipelinePlan& plan, int32_t stage,
                                  const std::vector<NodeId>& replicas);
// Those holders of a stage's deltas that the speakers of other cohorts send theirs to: speakers,
// and who joins.
std::vector<NodeId> HearersOf(const PipelinePlan& plan, int32_t stage);

// The node is alone from then on. Of rounds [first_round, end_round), which it may have encoded
// with the others, it is absent: what it said in them is in the cohort's message.
PipelinePlan WithoutMember(const PipelinePlan& plan, const NodeId& node, int64_t first_round,
                           int64_t end_round);
// Slots that another node fills than before, or who joins with this plan, are cohorts of one.
void PartMoved(const PipelinePlan& before, PipelinePlan* plan);

struct CohortInput {
  ClusterConfig cluster;
  std::map<NodeId, DeviceProfile> devices;
  std::map<NodeId, std::string> regions;
  LinkMatrix links;
};
// Why two replicas of a stage may not be in one cohort; "": they may.
std::string WhyApart(const CohortInput& input, const NodeId& a, const NodeId& b);

// [nodes, nodes] as the link matrix: 1 where WhyApart has nothing to say; empty: groups are off, or
// nobody may be with anybody.
using NearPairs = std::vector<uint8_t>;
NearPairs NearPairsOf(const CohortInput& input);

// Cohorts of every stage: slot by slot, each goes to the first all of whose members it may be with.
// Stages without a cohort of two have none. `near` is of these links.
void SetCohorts(const NearPairs& near, const LinkMatrix& links, PipelinePlan* plan);
void SetCohorts(const CohortInput& input, PipelinePlan* plan);

// What the ring of these members of a stage takes every step on these links, the outer optimizer's
// work not counted; `config` is settled. Infinite if a link is not usable.
double RingSeconds(const RunConfig& config, const PipelinePlan& plan, int32_t stage,
                   const std::vector<NodeId>& members, const LinkMatrix& links);

// InvalidArgument: not a number for each slot, or one below 0.
absl::Status CheckCohorts(const PipelinePlan& plan);

}  // namespace skerry
