// Pipeline work that is being checked (ops_work_checks.cc); of this life of the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/coordinator_actor.h"
#include "coordinator/work_judge.h"

namespace skerry {

struct CoordinatorActor::WorkChecking {
  static constexpr size_t kOpenMax = 1024;
  static constexpr size_t kSuspectsMax = 3;  // of one comparison; a checker keeps six visits
  // A stage with a node that was checked seldom is checked so much more often, as long as it was.
  static constexpr double kNewTimes = 16;
  // And those of two heartbeats: the order is there first.
  static constexpr int64_t kStepsAhead = 2;

  // Visits of several replicas that one other computes again, in one step.
  struct Comparison {
    int32_t stage = 0;
    std::map<NodeId, int32_t> microbatches;  // of the suspects
    std::vector<WorkJudge::Found> found;
  };
  using Key = std::pair<int64_t, NodeId>;  // step, checker
  std::map<Key, Comparison> open;
  int64_t drawn_below = 0;  // steps that were drawn from
  WorkJudge judge;
  std::set<NodeId> odd;              // by the size of what they send: checked as if nobody ever was
  std::map<NodeId, int32_t> stages;  // as they were when it was noted
  std::set<std::pair<NodeId, NodeId>> told_doubt;  // checker, suspect

  struct Visit {
    int32_t microbatch = 0;
    NodeId before, after;
  };
  using Visits = std::map<NodeId, std::vector<Visit>>;  // of one stage and step
  void DrawStep(CoordinatorActor& actor, Context& context, int64_t step);
  void DrawStage(Context& context, double share, int64_t step, int32_t stage, const Visits& visits);
  NodeId DrawSuspect(Context& context, std::vector<NodeId>& suspects) const;
  void Compare(Context& context, int64_t step, int32_t stage, const NodeId& checker,
               const Visits& visits);
  void Judge(CoordinatorActor& actor, Context& context, Key key);
  void TellDoubt(Context& context, const Key& key, int32_t stage, const NodeId& suspect,
                 size_t replicas);
};

}  // namespace skerry
