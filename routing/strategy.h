// Other people's schedulers behind one interface, on the same fleet and by the same evaluator, for
// comparison: what a run would take if it were planned their way.
//
//   in-order  1F1B as every data centre runs it: nodes fill slots in the order given, straight
//             pipelines, nothing skipped (GPipe, PipeDream)
//   dt-fm     its placement (dtfm.h), straight pipelines along its matching, nothing skipped
//   swarm     nodes in order; every hop goes to the replica with the least virtual run time,
//             weighted by its speed (stochastic wiring, arXiv 2301.11913), nothing skipped
//   skippipe  its placement and its conflict-based search (skippipe_search.h)
//   skippipe-even  the same with quotas that are an equal share: as published they are only in its
//             own proportions of stages, elsewhere some nodes get no work, which no run could train
//
// Stages, layers and replicas are given: these schedulers do not choose them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "routing/evaluator.h"

namespace skerry {

enum class Strategy : uint8_t { kInOrder, kDtfm, kSwarm, kSkipPipe, kSkipPipeEven };

inline constexpr const char* kStrategyNames[] = {"in-order", "dt-fm", "swarm", "skippipe",
                                                 "skippipe-even"};

struct StrategyInput {
  Fleet fleet;
  // Its microbatches are not read: they are what a strategy decides.
  Workload shape;
  std::vector<double> delta_boundaries;  // per stage: bytes of a delta / of a boundary payload
  int32_t microbatches_per_step = 1;
  double skip_ratio = 0;  // of what may skip
  uint64_t seed = 1;
  std::function<bool()> should_stop;  // of searches; may be empty
};

struct StrategyPlan {
  Workload workload;
  Placement placement;
  std::string note;  // what it did, one line
};

// FailedPrecondition if the strategy has no plan for this fleet, and why: DT-FM and SkipPipe want
// every pair of nodes connected, SkipPipe stages of its proportions.
absl::StatusOr<StrategyPlan> RunStrategy(Strategy strategy, const StrategyInput& input);

}  // namespace skerry
