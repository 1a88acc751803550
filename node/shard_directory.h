// The node's cache of token shards on disk: kept by content, so that runs over the same text share
// them.
//
//   ROOT/objects/DIGEST      a whole verified file
//   ROOT/sets/DIGEST/FILE    hard links that make a data set (model/token_dataset.h), named after
//   its index.json
//
// An index may say where else its shards are (model/dataset_address.h). They are fetched from there
// before the index is kept; what does not come, or is not what its digest says, is left to the
// coordinator, and all the rest after two such files. Data sets that were used longest ago are
// dropped where there is more than the cache may have.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "model/token_dataset.h"
#include "node/shard_store.h"
#include "node/trained_stage.h"

namespace skerry {

struct ShardDirectoryOptions {
  // A file of so many bytes from elsewhere; nullptr: nothing is fetched from elsewhere.
  std::function<absl::StatusOr<Bytes>(const std::string& address, int64_t bytes)> fetch;
  std::function<void(const std::string& line)> say;  // for the log
  // Of the disk, for data sets of other runs; what a run needs it has.
  int64_t bytes_max = kCacheBytesDefault;
  static constexpr int64_t kCacheBytesDefault = int64_t{32} << 30;
};

class ShardDirectory final : public ShardStore {
 public:
  explicit ShardDirectory(std::string root, ShardDirectoryOptions options = {})
      : root_(std::move(root)), options_(std::move(options)) {}

  bool Has(const ShardName& shard) override;
  // DataLoss if the bytes are not what the digest says; Unavailable if the disk refuses. With an
  // index, what it lists is fetched first; Aborted if that was stopped, and nothing was kept then.
  absl::Status Put(const ShardName& shard, const Bytes& bytes) override;

  Payload Read(const ShardName& shard, int64_t offset, int64_t length) override;

  // Lays the data set out and opens it for reading microbatches of `config`.
  absl::StatusOr<std::unique_ptr<TokenSource>> Open(const RunConfig& config,
                                                    const std::vector<ShardName>& shards);

 private:
  std::string ObjectPath(const ShardName& shard) const;
  absl::Status Keep(const ShardName& shard, const Bytes& bytes);
  // An index came: makes room for what it lists, and fetches that from where it says.
  absl::Status Expect(const ShardName& index_file, const std::string& text);
  absl::Status FetchFrom(const std::string& base, const DatasetIndex& index);
  // So that `bytes` more stay within the limit: without data sets that were used longest ago, but
  // `current`, and without files of no data set, but those that have the digests `keeps`.
  void MakeRoom(const std::string& current, const std::set<std::string>& keeps,
                int64_t bytes) const;
  void Say(const std::string& line) const;

  std::string root_;
  ShardDirectoryOptions options_;
};

// Reads microbatches of `config` from a data set's directory.
absl::StatusOr<std::unique_ptr<TokenSource>> OpenTokenSource(const RunConfig& config,
                                                             const std::string& directory);

}  // namespace skerry
