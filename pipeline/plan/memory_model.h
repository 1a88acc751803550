// Bytes a node needs to hold a stage: what must fit before anything else is asked. In which of its
// memories they lie, and what a node makes of what it has, is node_memory.h's.
//
// Covers what the stage takes from the heap, to within 5 % of what the allocator gives (measured:
// tests/node/memory, `./dev bench memory`); kProcessBytes, what a node's process takes besides, is
// a rough constant. n parameters, W = 4n bytes; activations as
// float32 even where a run computes in bf16, as a node without bf16 does, so that then this is an
// upper bound:
//
//   weights     W; W/2 more in bf16, which products read
//   gradients   W each: the step's sum, and the sums of `gradients` microbatches that wait for
//               their turn (model/stage_trainer.h: bits do not depend on who comes first)
//   optimizer   2 W with AdamW; with Muon also scratch for the largest matrix of a layer
//   outer       base W, with momentum W more; with ResidualPlace::kBuffer the residual, W/2, in co2
//               W (localsgd/replica.h)
//   sums        4 W in a cohort: the own sum of gradients, that of all while it is made, the one
//               before, and what comes meanwhile (pipeline/exec/cohort.h)
//   codec       the own message, the payload made of it, and a delta of every other replica until
//               the round lands; in co2 two and three of them, in streaming of fragments
//   stash       per microbatch between forward and backward: what the backward of every layer
//               reads, of a recomputed layer its input (of a ladder the inputs of both
//               halves); of parked ones none
//   buffers     per such microbatch its payload on the way in and out; where the stage is the
//               whole model none, and the stream is in the stash (model/stage_trainer.h)
//   workspace   once: what a pass needs between two operations, on stage 0 the logits of a chunk
//               of tokens (model/head.h); what recomputed layers share
//
// Besides, what a node holds now and then; it must have room for both at once:
//
//   handover    while somebody joins its stage: base and momentum 2 W, and with AdamW the moments
//               in bf16, W (docs/decisions/0031-joining.md); as a joiner the same, of others
//   checkpoint  until the coordinator has fetched it: base, momentum, moments
#pragma once

#include <cstdint>
#include <string>

#include "common/run_config.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// The planner leaves so much of what a node offers free: for what the model does not count
// (allocator, threads, frames under way) and for what else the machine does.
inline constexpr double kMemoryMargin = 0.10;

// What a node's process takes before it holds a stage: code, libraries, sockets and their buffers,
// compiled kernels. An estimate, not part of any stage's need: what a node offers is what was free
// when it was running.
inline constexpr int64_t kProcessBytes = int64_t{48} << 20;

// What a node holds at a time, at worst.
struct StageHolds {
  int32_t microbatches = 1;  // between forward and backward
  int32_t gradients = 1;     // between the beginning of their backward and their turn
  int32_t replicas = 1;      // of the stage: each sends a delta
  int32_t recomputed = 0;    // layers of which only the input is kept (model/stage_trainer.h)
  bool offloads = false;     // the optimizer's state to the host (model/host_optimizer.h)
  int32_t parked = 0;        // of those microbatches: stashes elsewhere (model/stash_pool.h)
  bool on_disk = false;      // these on a disk, although the node has a host beside its devices
  bool by_tensors = false;   // devices that may share either share tensors (node_memory.h)
  bool operator==(const StageHolds&) const = default;
};

struct StageMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t outer = 0;
  int64_t sums = 0;
  int64_t codec = 0;
  int64_t stash = 0;
  int64_t buffers = 0;
  int64_t workspace = 0;
  int64_t handover = 0;
  int64_t checkpoint = 0;
  int64_t now_and_then() const { return handover + checkpoint; }
  int64_t total() const {
    return weights + gradients + optimizer + outer + sums + codec + stash + buffers + workspace;
  }
  // What a node must offer.
  int64_t needed() const {
    return static_cast<int64_t>(static_cast<double>(total() + now_and_then()) *
                                (1 + kMemoryMargin));
  }
};

// `tensors_over` > 1: on one of so many devices that share the stage's tensors, its part
// (model/tensor_split.h) of weights, gradients, optimizer, stash and workspace. The rest is the
// stage's.
StageMemory MemoryOf(const RunConfig& config, int32_t layers, bool holds_ends,
                     const StageHolds& holds, int32_t tensors_over = 1);

// Of a stage with so many replicas in a run with so many of stage 0, without recomputation, on a
// node that has no more memory than it must have: then a stage after stage 0 holds kGradientsMin
// gradients, which costs about 2 % of a step. Stage 0 holds one from the loss on, so it needs a
// window of them.
inline constexpr int32_t kGradientsMin = 2;
StageHolds HoldsOf(const RunConfig& config, int32_t first_replicas, int32_t replicas,
                   bool holds_ends);

// Stashes of a node with these holds, parked or not: of a run whose work is checked one more than
// microbatches.
int32_t StashesOf(const RunConfig& config, bool holds_ends, const StageHolds& holds);
// One of them: in memory and on disk, as float32; and what crosses of it in a type.
int64_t StashBytes(const RunConfig& config, int32_t layers, bool holds_ends,
                   const StageHolds& holds, int32_t tensors_over = 1);
double StashBytesMoved(const RunConfig& config, int32_t layers, const StageHolds& holds,
                       InnerCompute type);

// Of a stage's forward pass, what a node with these holds does again on the way back.
double RepeatShare(const RunConfig& config, int32_t layers, const StageHolds& holds);

// How many microbatches a replica can hold at worst: never more than all stage-0 windows together,
// never more than its share of a step, and two more where its column meets its neighbours'.
// ValidateMemory holds every plan to it (safety.h, HeldAtMost).
int32_t HeldMax(const RunConfig& config, int32_t first_replicas, int32_t replicas, bool holds_ends);

// How many gradients a replica has use for, waiting for their turn: as many as a window, which is
// what passes without order where all is well.
int32_t GradientsMax(const RunConfig& config, int32_t replicas, bool holds_ends);

// "1.4 GiB", for people.
std::string BytesText(int64_t bytes);

// ", 2 layers recomputed, optimizer on the host, 5 stashes parked", or nothing.
std::string PutOffText(const StageHolds& holds);

// "weights 12.0 MiB, gradients 18.0 MiB, …", for people; what is nothing is left out.
std::string PartsText(const StageMemory& memory);

}  // namespace skerry
