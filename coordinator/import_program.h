// A run that begins with somebody's model: a Hugging Face directory becomes the run's first
// checkpoint, with nothing learnt in this run: no outer momentum, no moments.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "coordinator/checkpoint_store.h"

namespace skerry {

// Whether `directory` is one: it has a config.json and no journal.
bool IsHuggingFaceDirectory(const std::string& directory);

// What a run on this model is configured as, unless the operator says otherwise: its sizes, at most
// 1024 tokens a sequence, every microbatch through every layer, a small learning rate.
absl::StatusOr<RunConfig> ConfigForModel(const std::string& directory);

// The same, of the operator's configuration; of its [model] the context is kept. InvalidArgument:
// the model does not reach that far.
absl::StatusOr<RunConfig> ConfigForModel(const std::string& directory, RunConfig wished);

// Writes generation 1 into the checkpoints of the run in `to`, and the tokenizer's files into its
// tokenizer/. One tensor's piece is in memory at a time. Errors as ReadHuggingFace; a value that is
// not finite is InvalidArgument naming the tensor.
absl::StatusOr<Checkpoint> ImportModel(const std::string& directory, const std::string& to,
                                       const RunConfig& config);

}  // namespace skerry
