// What the coordinator keeps so that people can see where the time of a step goes: traces of nodes
// until their step is complete, the model's prediction of the plan in force, and how much it may
// still write of them. None of it is journalled.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "coordinator/coordinator_actor.h"
#include "coordinator/step_paths.h"
#include "pipeline/plan/planner.h"
#include "routing/evaluator.h"

namespace skerry {

struct CoordinatorActor::Tracing {
  static constexpr size_t kStepsMax = 4;                // collected at a time
  static constexpr size_t kTasksMax = size_t{1} << 16;  // of one step
  static constexpr size_t kTasksWritten = 600;
  // Events of a week stay small: beyond the burst, a trace waits until it has saved up its bytes.
  static constexpr double kBytesPerSecond = 100;
  static constexpr double kBytesBurst = 4e6;

  struct Step {
    std::map<std::string, StepTrace> of;  // by NodeId::Short()
    size_t tasks = 0;
  };
  std::map<int64_t, Step> steps;
  int64_t done_below = 0;  // steps that were written, or given up

  double bytes_left = kBytesBurst;
  Instant saved_until;

  // Of the plan of this version, once it was asked for; empty records: there is no model of it.
  struct Prediction {
    int64_t plan_version = 0;
    PlannerInput input;
    PipelinePlan plan;
    std::vector<NodeId> node_of_slot;
    std::vector<TaskRecord> records;
    int32_t steps = 0;
  };
  std::shared_ptr<Prediction> prediction;

  struct Writing {  // a job
    Step step;
    int64_t number = 0;
    int64_t plan_version = 0;
    double predicted_s = 0;
    std::shared_ptr<Prediction> prediction;
    std::string event;
  };
  std::shared_ptr<Writing> writing;
  JobId job = 0;

  std::map<NodeId, Instant> told_standing;
};

}  // namespace skerry
