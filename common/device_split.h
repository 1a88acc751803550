// What of a stage several devices of one node share out: the sequences of every microbatch, each
// holding all weights, or the tensors of every layer, each working on all sequences
// (docs/decisions/0049-devices.md, 0069-tensor-split.md).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/run_config.h"

namespace skerry {

enum class DeviceSplit : uint8_t { kSequences, kTensors };

// Whether the tensors of this run's layers can be shared out over so many devices, ≥ 1.
// InvalidArgument: heads, key/value heads or ffn are no multiple of them, or a step of the inner
// optimizer needs whole matrices.
absl::Status CheckTensorSplit(const RunConfig& config, int32_t devices);

}  // namespace skerry
