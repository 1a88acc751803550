// What a plan is and what limits it, in a few lines for people.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/run_config.h"
#include "pipeline/plan/memory_model.h"
#include "pipeline/plan/outer_choice.h"
#include "routing/evaluator.h"
#include "routing/topology.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct PlanFigures {
  // What outer rounds add to a step. Who waits for a round is held up by it no longer, so it is the
  // greater of the two.
  double outer_s() const { return std::max(exposed_s, held_up_s); }
  std::string batch;      // why microbatches and window are as they are; empty: as configured
  Evaluation evaluation;  // slots numbered over all stages, stage 0 first
  std::vector<StageHolds> holds;  // [slots] with what they put off for want of memory
  double ring_s = 0;              // of a step: the slowest cohort sums its gradients
  int32_t speakers = 0;           // of all stages' replicas
  double exposed_s = 0;           // outer traffic not hidden, per step
  double held_up_s = 0;           // by outer traffic that is hidden, per step (held_up.h)
  double first_s = 0;             // what the first placement tried would have taken
  double placement_bound_s = 0;   // of this placement
  double any_bound_s = 0;         // of every placement
  int32_t evaluations = 0;
  OuterChoice outer;
  bool outer_was_open = false;  // the planner chose some of it
  double plain_step_s = 0;      // where the plan names slow links: the step if they were not
};

// `config` is settled.
std::string ExplainPlan(const PipelinePlan& plan, const RunConfig& config, const LinkMatrix& links,
                        const PlanFigures& figures);

}  // namespace skerry
