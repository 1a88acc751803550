// Where a node keeps token shards. Bodies: a directory (node/shard_directory), or tokens made up in
// memory (sim).
#pragma once

#include "absl/status/status.h"
#include "common/bytes.h"
#include "wire/message/message.h"

namespace skerry {

class ShardStore {
 public:
  virtual ~ShardStore() = default;
  // Called in handlers: quick. True only if the shard is whole (its digest was verified when it was
  // put).
  virtual bool Has(const ShardName& shard) = 0;
  // Called on the device thread. Verifies the digest, then keeps the shard; all or nothing.
  virtual absl::Status Put(const ShardName& shard, const Bytes& bytes) = 0;
};

}  // namespace skerry
