// The tokens of a run: a directory of shards (model/token_shard.h) and index.json.
//
//   { "format": "skerry-tokens", "version": 1, "vocab": 256, "token_bytes": 1,
//     "shards": [ {"file": "train-00000.tok", "split": "train", "tokens": N, "bytes": N + 64,
//                  "digest": "64 hexadecimal digits"}, … ] }
//
// The shards of a split, in order, are one stream of tokens. Window w of context C is the C + 1
// tokens from w · C on: C inputs and, one further, C targets; so every token but the first is a
// target exactly once per pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "model/token_shard.h"

namespace skerry {

inline constexpr char kDatasetIndexFile[] = "index.json";

struct DatasetFile {
  std::string file;  // a plain name within the directory
  Digest digest;     // of the whole file
  int64_t bytes = 0;
  bool operator==(const DatasetFile&) const = default;
};

struct IndexedShard {
  DatasetFile file;
  Split split = Split::kTrain;
  int64_t tokens = 0;
};

struct DatasetIndex {
  int32_t vocab = 0;
  int32_t token_bytes = 1;
  std::string tokenizer;  // digest of its file, in hexadecimal digits; "": bytes, or not known
  std::vector<IndexedShard> shards;
};

std::string DatasetIndexText(const DatasetIndex& index);
absl::StatusOr<DatasetIndex> ParseDatasetIndex(const std::string& text);

// Everything a node needs to open the data set: the shards, and index.json last.
absl::StatusOr<std::vector<DatasetFile>> ListDatasetFiles(const std::string& directory);

enum class Verify : uint8_t { kSizes, kDigests };

// Immutable once open; any thread may read.
class TokenDataset {
 public:
  // Maps every shard; headers and sizes must agree with the index, with kDigests every byte.
  // NotFound, DataLoss or InvalidArgument names the file.
  static absl::StatusOr<std::unique_ptr<TokenDataset>> Open(const std::string& directory,
                                                            Verify verify);

  int32_t vocab() const { return index_.vocab; }
  const std::string& tokenizer() const { return index_.tokenizer; }
  int64_t tokens(Split split) const;
  int64_t windows(Split split, int32_t context) const;
  // FailedPrecondition if the data has not one training window, or not the model's vocabulary.
  absl::Status CheckFits(const RunConfig& config) const;

  // tokens [context + 1] of window `window` in [0, windows(split, context)). DataLoss if a token is
  // outside the vocabulary.
  absl::Status ReadWindow(Split split, int64_t window, std::span<int32_t> tokens) const;

  // The training microbatch addressed by (config.seed, step, microbatch), see model/sample_order.h.
  //   tokens, targets  [sequences · context]
  // FailedPrecondition as of CheckFits.
  absl::Status ReadMicrobatch(const RunConfig& config, int64_t step, int32_t microbatch,
                              std::span<int32_t> tokens, std::span<int32_t> targets) const;

 private:
  struct Stream {
    std::vector<TokenShard> shards;
    std::vector<int64_t> begins;  // first token of each shard in the stream
    int64_t tokens = 0;
  };
  TokenDataset() = default;
  absl::Status AddShard(const std::string& directory, const IndexedShard& shard, Verify verify);
  const Stream& stream(Split split) const { return streams_[static_cast<size_t>(split)]; }
  absl::Status Read(Split split, int64_t first, std::span<int32_t> out) const;

  DatasetIndex index_;
  Stream streams_[2];  // by Split
};

}  // namespace skerry
