// Makes the plan of a run: stages, replicas, layer ranges, paths, and which node fills which slot.
//
// Two halves that must not mix (wire/message/pipeline_plan.h): the *logical* plan is a function of
// the configuration, the number of nodes and their rounded speed classes (partition.h,
// path_table.h); the *placement* of nodes on its slots is simulated annealing on measured links and
// devices (routing/placement.h) and changes the time of a step, never its arithmetic.
//
// With [cluster] groups the plan has cohorts, and placements are compared with what their rings
// take and what their speakers send (routing/stage_traffic.h).
//
// Pure and deterministic: equal input, equal plan, on every machine. About a second at 20 nodes.
// The names of nodes play no part beyond breaking exact ties: relabelling a fleet changes no
// predicted time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "pipeline/plan/cohorts.h"
#include "pipeline/plan/message_cost.h"
#include "pipeline/plan/outer_choice.h"
#include "routing/topology.h"
#include "wire/message/device_profile.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct PlannerInput {
  RunConfig config;
  std::vector<NodeId> nodes;                // who takes part: ascending, without repetition
  std::map<NodeId, DeviceProfile> devices;  // of every node; gflops 0: not measured, fleet median
  LinkMatrix links;                         // of at least these nodes
  std::map<NodeId, std::string> regions;    // for [cluster] groups that names some
  int64_t version = 1;                      // of the plan to make
  double message_s = kMessageSeconds;       // what a message costs a node besides its bytes
  bool is_quick = false;  // any sound plan, in milliseconds: where its worth is no matter
  NearPairs near;         // MakePlan's own: of the links as they were before anything was rounded
};

struct PlannedRun {
  PipelinePlan plan;
  // Steady state, on average over the steps from round to round: with outer traffic that is not
  // hidden, or what it holds up while it is (not in quick plans), and rings of cohorts.
  double predicted_step_s = 0;
  double ring_s = 0;         // of that: the slowest cohort sums its gradients
  int32_t speakers = 0;      // in outer rounds, of all stages; without cohorts every replica
  double lower_bound_s = 0;  // no placement of this logical plan can be faster (lower_bound.h)
  OuterChoice outer;         // of the rounds, whoever chose it
  double plain_step_s = 0;   // without outer traffic, if the slow links were not compressed
  std::string explanation;   // several lines of text for people: why so, and what limits it
};

// InvalidArgument or FailedPrecondition or ResourceExhausted when there is no plan; the message
// says what is missing and by how much: too few nodes or layers for the stages asked for, no
// memory, nodes that cannot reach each other.
absl::StatusOr<PlannedRun> MakePlan(const PlannerInput& input);

// The same plan with these nodes dead (all that are dead, not only the newly dead) under a greater
// version; joiners among them join no more. Nothing moves: route.h patches the paths.
// InvalidArgument: a dead node is not of the plan, or the version does not grow.
// FailedPrecondition: no stage-0 replica would be left.
absl::StatusOr<PipelinePlan> RepairPlan(const PipelinePlan& plan, const std::set<NodeId>& dead,
                                        int64_t version);

}  // namespace skerry
