// What of a stage several devices of one node share out: the sequences of every microbatch, each
// holding all weights, or the tensors of every layer, each working on all sequences
// (docs/decisions/0049-devices.md, 0069-tensor-split.md).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/run_config.h"

namespace skerry {

// kEither: no split, but a node's offer to take tensors where it has no room otherwise
// (pipeline/plan/node_memory.h).
enum class DeviceSplit : uint8_t { kSequences, kTensors, kEither };

// One of the devices that share a stage's tensors; as it is made, the only one.
struct TensorShard {
  int32_t devices = 1, rank = 0;
};

// The rows of embedding and head that are such a device's: consecutive, in order of rank, nearly
// the same number for each. Where there are eight for each they begin at a multiple of eight, so
// that rows of logits in bf16 do at one of 16 bytes, which products on GPUs are fastest with.
struct VocabRows {
  int64_t first = 0, size = 0;
};
VocabRows VocabRowsOf(int64_t vocab, const TensorShard& shard);

// Whether the tensors of this run's layers can be shared out over so many devices, ≥ 1.
// InvalidArgument: heads, key/value heads or ffn are no multiple of them, the vocabulary has fewer
// tokens, or a step of the inner optimizer needs whole matrices.
absl::Status CheckTensorSplit(const RunConfig& config, int32_t devices);

}  // namespace skerry
