// SkipPipe's scheduling problem and schedules, as its published code states them
// (gensyn-ai/skippipe at 7f20d8a; arXiv 2502.19913): what a schedule means there, so that ours can
// be compared like for like.
//
// Every node holds one stage. A microbatch starts at a node of stage 0, visits `path_length` − 1
// nodes of other stages, returns for its loss, and its backward pass retraces the path. A node
// serves one task at a time; a transfer takes a constant time and never keeps anybody busy. A
// forward needs one of the node's `in_flight` memory slots, from its start until the backward's
// start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace skerry {

struct SkipPipeProblem {
  std::vector<int32_t> stage_sizes;  // [stages] nodes per stage; stage 0 holds the data
  int32_t path_length = 2;           // visits of a microbatch, stage 0 included; ≤ stages
  int32_t in_flight = 1;             // memory slots of every node
  int32_t waves = 1;                 // microbatches per slot of a stage-0 node under equal loads
  std::vector<double> transfer_s;    // [n, n] one activation, row = from; the diagonal is not used
  std::vector<double> forward_s;     // [n]
  double backward_factor = 1.5;      // of forward_s
  double loss_factor = 0.25;         // of forward_s, on the stage-0 node
  double task_gap_s = 0.13;          // a node is idle that long after a task
  double start_gap_s = 0.09;         // and that long after a task it started a microbatch with
  // SkipPipe's search: at most one visit of a path goes back, by one stage, and no visit goes more
  // than four stages past the furthest so far.
  int32_t swaps_max = 1;
  int32_t jump_max = 4;

  int32_t nodes() const { return static_cast<int32_t>(forward_s.size()); }
  int32_t stages() const { return static_cast<int32_t>(stage_sizes.size()); }
  int32_t microbatches() const { return stage_sizes.front() * in_flight * waves; }
  double TransferSeconds(int32_t from, int32_t to) const {
    return transfer_s[static_cast<size_t>(from) * forward_s.size() + static_cast<size_t>(to)];
  }
};

struct SkipPipeMicrobatch {
  std::vector<int32_t> path;  // nodes, front is of stage 0
  // A stage-0 node's microbatches run in lanes. Those of wave > 0 wait until the lane's first one
  // is back.
  int32_t lane = 0;      // in [0, 100), over all nodes
  int32_t wave = 0;      // ≥ 0
  double release_s = 0;  // not started before; ≥ 0
};

struct SkipPipeSchedule {
  std::vector<std::vector<int32_t>> partitions;  // [stage] its nodes
  std::vector<SkipPipeMicrobatch> microbatches;  // order settles ties
};

// InvalidArgument with what is wrong: sizes that do not fit each other, times that are not finite
// or negative, a path longer than there are stages.
absl::Status ValidateProblem(const SkipPipeProblem& problem);

// What every schedule must be for either simulator: nodes exist, each in one stage of the right
// size; paths start in stage 0, where no other visit is, and visit no stage twice.
absl::Status ValidateSchedule(const SkipPipeProblem& problem, const SkipPipeSchedule& schedule);

// The length and order of stages on a path are what SkipPipe's search would allow.
bool IsAllowedPath(const SkipPipeProblem& problem, const std::vector<int32_t>& stages_on_path);

// The data-parallel proxy of SkipPipe's placement: the largest transfer time between two nodes of
// one stage.
double LargestStageLink(const SkipPipeProblem& problem,
                        const std::vector<std::vector<int32_t>>& partitions);

}  // namespace skerry
