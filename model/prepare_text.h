// From a text file to a token data set with the byte tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/token_dataset_writer.h"

namespace skerry {

struct PrepareTextOptions {
  double validation_share = 0.01;  // in [0, 0.5]: that much of the text's end
  int64_t shard_tokens = TokenDatasetWriter::kShardTokensDefault;
  std::function<void(double share)> progress;  // called now and then, share in [0, 1]; may be empty
};

struct PreparedText {
  int64_t train_tokens = 0;
  int64_t validation_tokens = 0;
};

// Reads `input` (plain, .gz or .dz; made valid UTF-8, see model/text_source.h) twice: once to know
// its length, once to write; memory stays bounded by a shard. The same input gives the same bytes.
// InvalidArgument if the text is empty; AlreadyExists if `directory` has a data set.
absl::StatusOr<PreparedText> PrepareText(const std::string& input, const std::string& directory,
                                         const PrepareTextOptions& options);

}  // namespace skerry
