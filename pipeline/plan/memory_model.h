// Bytes a node needs to hold a stage: what must fit before anything else is asked.
//
// Everything is float32. Per weight: itself, its gradient, two moments (AdamW), and of the outer
// optimizer the base, its momentum, the decoded sum of a round and, where progress is kept in a
// buffer, the residual. Per microbatch between its forward and its backward: what the backward of
// every layer reads (no recomputation), plus its payload on the way in and out. Once: the widest
// temporary, and on stage 0 the logits.
#pragma once

#include <cstdint>
#include <string>

#include "common/run_config.h"

namespace skerry {

struct StageMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t outer = 0;
  int64_t stash = 0;
  int64_t workspace = 0;
  int64_t total() const { return weights + gradients + optimizer + outer + stash + workspace; }
};

// `held` microbatches are between forward and backward at a time (HeldMax).
StageMemory MemoryOf(const RunConfig& config, int32_t layers, bool holds_ends, int32_t held);

// How many microbatches a replica can hold at worst: never more than all stage-0 windows together,
// never more than its share of a step, and two more where its column meets its neighbours'.
// ValidateMemory holds every plan to it (safety.h, HeldAtMost).
int32_t HeldMax(const RunConfig& config, int32_t first_replicas, int32_t replicas, bool holds_ends);

// "1.4 GiB", for people.
std::string BytesText(int64_t bytes);

}  // namespace skerry
