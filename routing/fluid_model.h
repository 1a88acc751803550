// How long an iteration of a SkipPipe schedule takes, about: every node as a fluid.
// Twenty times cheaper than running the schedule; it tells good placements from bad ones, not good
// orders from bad ones.
//
// Of a node's k visits (Little's law on its m memory slots, then its computing):
//   held_s    mean of how long a visit holds memory, from its forward to the end of its backward
//   tour_s    mean of the whole tours these visits belong to; before and after a visit the node's
//             slots are idle for tour_s − held_s
//   stagger_s what the other slots' tasks, one at a time, put off; a share of (m − 1) · computing
//   time_s    max(tour_s + (k / m − 1) held_s + stagger_s, tour_s − held_s + k · computing); stage
//   0:
//             k / m is rounded up, its microbatches start in waves
// and the cost is a norm of these times that the largest dominate: what is next to the slowest will
// be in its way as soon as tasks wait for each other.
//
// Owns scratch memory. Not thread-safe; one per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/skippipe_evaluator.h"
#include "routing/skippipe_problem.h"

namespace skerry {

class FluidModel {
 public:
  // The reference is kept.
  explicit FluidModel(const SkipPipeProblem& problem);

  // Seconds. Only paths that differ from those of the last call are looked at.
  double Cost(const FlatSchedule& schedule);

 private:
  struct Node {
    int64_t held = 0;  // sums over its visits
    int64_t tour = 0;
    int32_t visits = 0;
    int32_t origins = 0;  // of them, as stage 0
    double power = 0;     // of its time
    bool changed = false;
  };

  void Count(const int32_t* path, int32_t sign);
  double NodeSeconds(size_t index) const;

  const SkipPipeProblem& problem_;
  size_t length_ = 0;
  std::vector<int32_t> loaded_;  // [microbatches, length] the paths in nodes_
  std::vector<int64_t> both_;    // [n, n] nanoseconds there and back
  std::vector<int64_t> work_;    // [n] of forward and backward
  std::vector<int64_t> loss_;    // [n]
  std::vector<double> busy_s_;   // [n] of a visit, with gaps
  std::vector<Node> nodes_;      // [n]
  std::vector<size_t> changed_;  // nodes
  std::vector<int64_t> held_;    // [length] of one tour
};

}  // namespace skerry
