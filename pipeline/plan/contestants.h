// A planner's input as its searches read it: nodes under numbers, links and memory as arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/plan/partition.h"
#include "pipeline/plan/planner.h"
#include "routing/placement.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// The fleet under names that do not matter: index i stands for nodes[i].
struct Contestants {
  std::vector<NodeId> nodes;  // in canonical order
  std::vector<int32_t> link_index;
  std::vector<double> gflops;
  std::vector<MemoryOffer> offers;
};

// Nodes in an order that does not depend on their names, but for exact ties.
Contestants Canonical(const PlannerInput& input);

// The first `steps_max` steps of a table, or all of it. Nodes numbered as the contestants.
PlacementProblem ProblemOf(const PlannerInput& input, const Contestants& contestants,
                           const Partition& partition, const std::vector<Path>& paths,
                           int32_t steps_max);

// Sets what the outer rounds of `config` cost.
void Charge(const RunConfig& config, const Partition& partition, PlacementProblem* problem);

// FailedPrecondition: which links do not work, and whose most of all.
absl::Status Disconnected(const PlacementProblem& problem, const Contestants& contestants);

}  // namespace skerry
