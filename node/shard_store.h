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
  // A part of a whole shard, for other nodes; called in handlers: quick. nullptr: it is not here,
  // or such a store gives nothing.
  virtual Payload Read(const ShardName&, int64_t /*offset*/, int64_t /*length*/) { return nullptr; }
};

}  // namespace skerry
