// Joint placement and routing: simulated annealing over who holds which stage and which way every
// microbatch goes, scored by running the schedule.
//
// SkipPipe (arXiv 2502.19913) places for the unskipped pipeline, then routes with equal loads: a
// badly connected node sets the makespan. Here both are one search: a few short ones, each first by
// a cheap model of the iteration (fluid_model.h), then by running the schedule (one begins with
// tours in columns, joint_columns.h; in full mode one keeps the placement it is given); then longer
// ones from the best. In each the temperature falls geometrically; every other move begins at a
// task on the critical path. SkipPipe's own simulator scores the best plans of the short searches
// and every plan that the long ones would accept: the plan is returned whose worse score of the two
// is best.
//
// Anytime: whatever stops it, the best plan so far is returned. Deterministic for a seed and a
// number of evaluations; no clock is read here.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "routing/skippipe_problem.h"

namespace skerry {

enum class JointMode : uint8_t {
  kStrict,  // this placement, equal loads
  kFull,    // any placement whose slowest link inside a stage is no slower, free loads
};

struct JointPlan {
  SkipPipeSchedule schedule;
  double iteration_s = std::numeric_limits<double>::infinity();  // SkipPipeEvaluator
  double simulator_s = std::numeric_limits<double>::infinity();  // SkipPipeSimulator
  double score() const { return iteration_s > simulator_s ? iteration_s : simulator_s; }
};

struct JointOptions {
  JointMode mode = JointMode::kFull;
  uint64_t seed = 1;
  // The budget: a number of evaluations, or what this says is spent of it, in [0, 1], asked about
  // every hundred evaluations (a clock; 1 ends the search).
  int64_t evaluations = 200000;
  std::function<double()> spent;
  // Told of every plan that is better than all before.
  std::function<void(const JointPlan&)> on_better;
};

// `partitions`: the placement to keep, or to start from; in full mode it may be empty: any
// placement is allowed then. InvalidArgument or FailedPrecondition if there is no plan for this
// problem.
absl::StatusOr<JointPlan> SearchJointly(const SkipPipeProblem& problem,
                                        const std::vector<std::vector<int32_t>>& partitions,
                                        const JointOptions& options);

}  // namespace skerry
