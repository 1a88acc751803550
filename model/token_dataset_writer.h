// Writes a token data set: shards of bounded size, index.json last, so that a directory with an
// index is a complete data set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/token_dataset.h"

namespace skerry {

// One thread owns it. A shard is kept in memory until it is full. After an error nothing but
// unlisted shards is left behind.
class TokenDatasetWriter {
 public:
  static constexpr int64_t kShardTokensDefault = 4 << 20;

  // `vocab` in [1, 2²⁴]: one byte a token up to 256, two up to 65536, else four. `tokenizer`: what
  // index.json says of it. AlreadyExists if the directory has
  // an index. Creates the directory.
  static absl::StatusOr<std::unique_ptr<TokenDatasetWriter>> Create(
      const std::string& directory, int32_t vocab, int64_t shard_tokens = kShardTokensDefault,
      const std::string& tokenizer = "");

  // Where a writer stands: the shards that are on the disk, and the tokens that are not.
  struct Standing {
    DatasetIndex index;
    Bytes open[2];  // by Split, encoded
  };
  Standing standing() const { return {index_, {open_[0].tokens, open_[1].tokens}}; }
  // Goes on from there, in another process. DataLoss if the shards are not as they were written.
  static absl::StatusOr<std::unique_ptr<TokenDatasetWriter>> Resume(const std::string& directory,
                                                                    int64_t shard_tokens,
                                                                    Standing standing);
  int32_t token_bytes() const { return index_.token_bytes; }

  // InvalidArgument if a token is outside [0, vocab).
  absl::Status Append(Split split, std::span<const int32_t> tokens);
  absl::Status Finish();  // once

 private:
  struct OpenShard {
    Bytes tokens;  // encoded
    int32_t ordinal = 0;
  };
  TokenDatasetWriter(std::string directory, int32_t vocab, int64_t shard_tokens);
  absl::Status CloseShard(Split split);

  std::string directory_;
  int64_t shard_tokens_;
  DatasetIndex index_;
  OpenShard open_[2];  // by Split
};

}  // namespace skerry
