// From a text file to a token data set with the byte tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/token_dataset_writer.h"

namespace skerry {

// What has been done, for a line that somebody watches.
struct PrepareProgress {
  double share = 0;         // in [0, 1]
  int64_t text = 0;         // bytes of text read
  int64_t tokens = 0;       // made of them
  bool is_resumed = false;  // from where another process was stopped
};
using ShowProgress = std::function<void(const PrepareProgress&)>;

// Where a preparation stands is saved so often, in bytes of text.
inline constexpr int64_t kSaveEveryDefault = 128 << 20;

struct PrepareTextOptions {
  double validation_share = 0.01;  // in [0, 0.5]: that much of the text's end
  int64_t shard_tokens = TokenDatasetWriter::kShardTokensDefault;
  int64_t save_every = kSaveEveryDefault;
  ShowProgress progress;  // called now and then; may be empty
};

struct PreparedText {
  int64_t train_tokens = 0;
  int64_t validation_tokens = 0;
};

// Reads `input` (plain, .gz or .dz; made valid UTF-8, see model/text_source.h) twice: once to know
// its length, once to write; memory stays bounded by a shard. The same input gives the same bytes,
// also if a process was killed and another goes on (model/prepare_state.h). InvalidArgument if the
// text is empty; AlreadyExists if `directory` has a data set; FailedPrecondition if it has half of
// another one.
absl::StatusOr<PreparedText> PrepareText(const std::string& input, const std::string& directory,
                                         const PrepareTextOptions& options);

}  // namespace skerry
