// SkipPipe's own scheduler (arXiv 2502.19913; gensyn-ai/skippipe at 7f20d8a), as a baseline: a
// placement for the full pipeline, then conflict-based search for the paths of its agents.
//
// An agent is a memory slot of a stage-0 node; all its microbatches take one path. Alone, an agent
// takes the shortest closed tour it is allowed (best first over partial paths). A first plan lets
// every agent do so; its first conflict is resolved in up to three ways, each a child with one more
// rule for one or more agents:
//   participation  a stage is visited by more agents than its memory serves: the surplus, fastest
//                  first, may not visit it
//   memory         a node has more agents than slots: the surplus may not visit it
//   collision      two agents would compute on a node at a time: one of them is put off
// The published search works with the same rules; where its code leaves an order open, equals go by
// index. Time is spent per evaluation of a plan by SkipPipeEvaluator.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "routing/skippipe_problem.h"

namespace skerry {

struct SkipPipeSearchOptions {
  uint64_t seed = 1;
  int64_t placement_evaluations = 8000;  // SkipPipe's trials
  int64_t nodes_max = 20000;             // of the search tree
  std::function<bool()> should_stop;     // may be empty; asked at every node
  bool avoid_collisions = true;          // false: the published variant "non-ca"
  // Stages and replicas serve as many agents each as an equal share allows, which is what the
  // published quotas come to in its own proportions; others let it leave nodes without work.
  bool equal_shares = false;
};

// The placement: DT-FM's cost with the largest link of any stage as its data-parallel part.
absl::StatusOr<std::vector<std::vector<int32_t>>> PlaceLikeSkipPipe(
    const SkipPipeProblem& problem, const SkipPipeSearchOptions& options);

// Paths on a placement. FailedPrecondition if the search ends without a plan: its tree can grow
// without one, as the published one's does on clusters of alike nodes.
absl::StatusOr<SkipPipeSchedule> RouteLikeSkipPipe(
    const SkipPipeProblem& problem, const std::vector<std::vector<int32_t>>& partitions,
    const SkipPipeSearchOptions& options);

}  // namespace skerry
