#include "routing/skippipe_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/status.h"

namespace skerry {
namespace {

bool IsTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

absl::Status ValidateSizes(const SkipPipeProblem& problem) {
  const auto n = problem.forward_s.size();
  if (problem.stages() < 2) return InvalidArgument("want at least 2 stages");
  for (const int32_t size : problem.stage_sizes) {
    if (size < 1) return InvalidArgument("a stage of %d nodes", size);
  }
  const int64_t sum =
      std::accumulate(problem.stage_sizes.begin(), problem.stage_sizes.end(), int64_t{0});
  if (sum != static_cast<int64_t>(n)) {
    return InvalidArgument("stage sizes add up to %d, there are %d nodes", sum, n);
  }
  if (problem.transfer_s.size() != n * n) {
    return InvalidArgument("want %d transfer times for %d nodes, got %d", n * n, n,
                           problem.transfer_s.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateProblem(const SkipPipeProblem& problem) {
  SKERRY_RETURN_IF_ERROR(ValidateSizes(problem));
  if (problem.path_length < 2 || problem.path_length > problem.stages()) {
    return InvalidArgument("a path of %d visits over %d stages", problem.path_length,
                           problem.stages());
  }
  if (problem.in_flight < 1 || problem.waves < 1) {
    return InvalidArgument("want memory for at least 1 microbatch and at least 1 wave, got %d, %d",
                           problem.in_flight, problem.waves);
  }
  for (int32_t i = 0; i < problem.nodes(); ++i) {
    if (!IsTime(problem.forward_s[static_cast<size_t>(i)])) {
      return InvalidArgument("node %d: the forward time is no time", i);
    }
    for (int32_t j = 0; j < problem.nodes(); ++j) {
      if (i != j && !IsTime(problem.TransferSeconds(i, j))) {
        return InvalidArgument("link %d to %d: the transfer time is no time", i, j);
      }
    }
  }
  for (const double factor :
       {problem.backward_factor, problem.loss_factor, problem.task_gap_s, problem.start_gap_s}) {
    if (!IsTime(factor)) return InvalidArgument("a factor or gap is negative or not finite");
  }
  return absl::OkStatus();
}

absl::Status ValidateSchedule(const SkipPipeProblem& problem, const SkipPipeSchedule& schedule) {
  if (schedule.partitions.size() != problem.stage_sizes.size()) {
    return InvalidArgument("want %d stages, got %d", problem.stages(), schedule.partitions.size());
  }
  std::vector<int32_t> stage_of(static_cast<size_t>(problem.nodes()), -1);
  for (size_t s = 0; s < schedule.partitions.size(); ++s) {
    if (static_cast<int32_t>(schedule.partitions[s].size()) != problem.stage_sizes[s]) {
      return InvalidArgument("stage %d: want %d nodes, got %d", s, problem.stage_sizes[s],
                             schedule.partitions[s].size());
    }
    for (const int32_t node : schedule.partitions[s]) {
      if (node < 0 || node >= problem.nodes()) return InvalidArgument("no node %d", node);
      if (stage_of[static_cast<size_t>(node)] >= 0) {
        return InvalidArgument("node %d is in two stages", node);
      }
      stage_of[static_cast<size_t>(node)] = static_cast<int32_t>(s);
    }
  }
  for (size_t m = 0; m < schedule.microbatches.size(); ++m) {
    const SkipPipeMicrobatch& microbatch = schedule.microbatches[m];
    std::vector<bool> seen(schedule.partitions.size());
    if (microbatch.path.size() < 2) return InvalidArgument("microbatch %d: no path", m);
    if (microbatch.lane < 0 || microbatch.lane >= 100 || microbatch.wave < 0 ||
        !IsTime(microbatch.release_s)) {
      return InvalidArgument("microbatch %d: lane, wave or release is out of range", m);
    }
    for (size_t hop = 0; hop < microbatch.path.size(); ++hop) {
      const int32_t node = microbatch.path[hop];
      if (node < 0 || node >= problem.nodes()) return InvalidArgument("no node %d", node);
      const auto stage = static_cast<size_t>(stage_of[static_cast<size_t>(node)]);
      if ((hop == 0) != (stage == 0) || seen[stage]) {
        return InvalidArgument("microbatch %d: visit %d is of stage %d", m, hop, stage);
      }
      seen[stage] = true;
    }
  }
  return absl::OkStatus();
}

bool IsAllowedPath(const SkipPipeProblem& problem, const std::vector<int32_t>& stages_on_path) {
  if (static_cast<int32_t>(stages_on_path.size()) != problem.path_length) return false;
  int32_t frontier = 0;
  int32_t swaps = 0;
  for (size_t hop = 1; hop < stages_on_path.size(); ++hop) {
    const int32_t stage = stages_on_path[hop];
    if (stage > frontier + problem.jump_max || stage < frontier - 1) return false;
    if (stage < frontier && ++swaps > problem.swaps_max) return false;
    frontier = std::max(frontier, stage);
  }
  return true;
}

double LargestStageLink(const SkipPipeProblem& problem,
                        const std::vector<std::vector<int32_t>>& partitions) {
  double largest = 0;
  for (const auto& stage : partitions) {
    for (const int32_t a : stage) {
      for (const int32_t b : stage) {
        if (a != b) largest = std::max(largest, problem.TransferSeconds(a, b));
      }
    }
  }
  return largest;
}

}  // namespace skerry
