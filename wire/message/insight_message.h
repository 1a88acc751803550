// What nodes and coordinator tell each other so that people can see: where the time of a step went,
// and what a node's work came to. Nothing is decided by either.
#pragma once

#include <cstdint>
#include <vector>

namespace skerry {

// Where rounds are short, one step in so many is traced.
inline constexpr int64_t kTraceEveryMin = 8;

// The step in the middle of each round: away from its boundary, and from where the last one lands.
// All nodes trace the same ones without talking.
constexpr bool IsTraced(int64_t step, int64_t inner_steps) {
  const int64_t every = inner_steps > kTraceEveryMin ? inner_steps : kTraceEveryMin;
  return step % every == every / 2;
}

// One task of a node's device in a traced step.
struct TracedTask {
  enum class Kind : uint8_t { kStart, kForward, kLoss, kBackward, kOptimizer, kLast = kOptimizer };
  Kind kind = Kind::kStart;
  int32_t microbatch = -1;  // −1: of the optimizer
  int32_t attempt = 0;
  int32_t hop = 0;  // in the microbatch's path
  // Microseconds since StepTrace::began_us: its input was here, it began, it was over.
  int64_t ready_us = 0;
  int64_t start_us = 0;
  int64_t end_us = 0;
  bool operator==(const TracedTask&) const = default;
};

// node → coordinator, after a step that IsTraced.
struct StepTrace {
  int64_t step = 0;
  int64_t plan_version = 0;
  int64_t began_us = 0;           // when it opened here, by the node's own clock
  std::vector<TracedTask> tasks;  // in the order in which they ended; ≤ kTracedTasksMax
  bool operator==(const StepTrace&) const = default;
};
inline constexpr size_t kTracedTasksMax = 512;

// coordinator → node, now and then: how it stands among the others.
struct Standing {
  int64_t tokens = 0;         // of its deltas that were accepted
  int64_t tokens_of_all = 0;  // of everybody's
  int32_t rank = 0;           // 1: nobody contributed more; 0: no delta of it was accepted yet
  int32_t nodes = 0;          // that contributed
  int64_t rounds = 0;         // that its deltas counted in
  int64_t step = 0;           // that the run has reached
  double step_s = 0;          // how long steps take now; 0: not known
  bool operator==(const Standing&) const = default;
};

}  // namespace skerry
