// What a production stage holds at worst, measured: a TrainedStage in the hands
// of a caller that does what a node may have to do, in the worst order the protocol allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "node/trained_stage.h"
#include "pipeline/plan/node_memory.h"

namespace skerry {

struct StageCase {
  RunConfig config;
  int32_t layers = 1;
  bool holds_ends = false;
  int32_t first_replicas = 1;  // of stage 0
  int32_t replicas = 1;        // of this stage
  bool offers_plenty = true;   // of memory: as many gradients wait as there is use for
  int32_t recomputed = 0;      // layers
  bool offloads = false;       // the optimizer, where devices have a host
  int32_t parked = 0;          // stashes: in the directory, or without one on the devices' host
  std::string spill = {};      // a directory on a disk
  int32_t devices = 1;         // that share it
  DeviceSplit split = DeviceSplit::kSequences;  // what of it
  // Makes each, with memory of its own; none: equal parts of the processor.
  std::function<std::unique_ptr<Backend>(DType compute)> device = {};
  bool IsWhole() const { return holds_ends && layers == config.model.layers; }
};

// Of two replicas in a run whose stage 0 has two, with heads of 32, one sequence a microbatch and a
// window of two, as an operator would write it for a small model.
StageCase SmallCase(int32_t hidden, int32_t layers, bool holds_ends);

struct HeldBytes {
  int64_t heap = 0;   // by the allocator: the peak over what was held before the stage was built
  int64_t stage = 0;  // by a node's own books: as its heartbeats say
  NodeMemory memory;  // by pipeline/plan/node_memory.h
  int64_t model = 0;  // all of that
  double error() const { return static_cast<double>(model) / static_cast<double>(heap) - 1; }
};

// Two inner steps with as many microbatches and gradients held as the memory model allows for, an
// outer round with a delta of every replica encoded before and landed after the second of them, so
// that all of it is there at once.
absl::StatusOr<HeldBytes> MeasureStage(const StageCase& shape);

}  // namespace skerry
