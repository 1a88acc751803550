// The node's cache of token shards on disk: kept by content, so that runs over the same text share
// them.
//
//   ROOT/objects/DIGEST      a whole verified file
//   ROOT/sets/DIGEST/FILE    hard links that make a data set (model/token_dataset.h), named after
//   its index.json
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "node/shard_store.h"
#include "node/trained_stage.h"

namespace skerry {

class ShardDirectory final : public ShardStore {
 public:
  explicit ShardDirectory(std::string root) : root_(std::move(root)) {}

  bool Has(const ShardName& shard) override;
  // DataLoss if the bytes are not what the digest says; Unavailable if the disk refuses.
  absl::Status Put(const ShardName& shard, const Bytes& bytes) override;

  // Lays the data set out and opens it for reading microbatches of `config`.
  absl::StatusOr<std::unique_ptr<TokenSource>> Open(const RunConfig& config,
                                                    const std::vector<ShardName>& shards);

 private:
  std::string ObjectPath(const ShardName& shard) const;
  std::string root_;
};

// Reads microbatches of `config` from a data set's directory.
absl::StatusOr<std::unique_ptr<TokenSource>> OpenTokenSource(const RunConfig& config,
                                                             const std::string& directory);

}  // namespace skerry
