// DT-FM's placement (arXiv 2206.01288): which nodes share a stage and in which order stages follow,
// by its own cost. A baseline, and the measure of dtfm_reference.
//
//   data-parallel   the slowest node of any group, exchanging a shard with every other member, one
//                   after another
//   pipeline        the shortest open tour over groups, an edge between two groups being the
//                   bottleneck of their best perfect matching (of the smaller one, SkipPipe's
//                   generalisation to unequal sizes)
//   cost            data-parallel + 2 · pipeline
//
// Computing, memory and the number of microbatches play no part. DT-FM searches with a genetic
// algorithm and local search, minutes of it; simulated annealing over exchanges of two nodes finds
// the same or better in well under a second, so that is what runs here. Deterministic for a seed
// and a number of evaluations.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace skerry {

inline constexpr int32_t kDtfmGroupsMax = 14;      // the tour is exact: 2^groups · groups²
inline constexpr int32_t kDtfmGroupNodesMax = 64;  // a row of a matching is a machine word

struct DtfmProblem {
  std::vector<int32_t> group_sizes;  // [groups] their order means nothing
  std::vector<double> exchange_s;    // [n, n] a shard of a gradient there and back
  std::vector<double> activation_s;  // [n, n] an activation, symmetric
  // SkipPipe's changes: the slowest pair of any group instead of a node's sum, and a tour that
  // begins with group 0 and ends there.
  bool largest_pair = false;
  bool closed_tour = false;
  int32_t nodes() const;
};

struct DtfmPlan {
  // In pipeline order. In every group the node at index i passes on to index i of the next; in a
  // larger group the unmatched ones are last.
  std::vector<std::vector<int32_t>> groups;
  double data_parallel_s = 0;
  double pipeline_s = 0;
  double cost_s() const { return data_parallel_s + 2 * pipeline_s; }
};

struct DtfmOptions {
  uint64_t seed = 1;
  int64_t evaluations = 20000;
  std::function<bool()> should_stop;  // asked about every hundred evaluations; may be empty
};

// InvalidArgument if sizes do not fit, a time is not finite or a limit above is exceeded.
absl::StatusOr<DtfmPlan> SearchDtfm(const DtfmProblem& problem, const DtfmOptions& options);

// The cost of a partition, tour and matching at their best. The same errors.
absl::StatusOr<DtfmPlan> EvaluateDtfm(const DtfmProblem& problem,
                                      const std::vector<std::vector<int32_t>>& groups);

}  // namespace skerry
