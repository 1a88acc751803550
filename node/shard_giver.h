// Gives shards of training data that this node has to other nodes. A part of the node's actor.
//
// What it gives goes behind all traffic of training (TrafficClass::kData), within the volunteer's
// rates and daily bytes as everything does. Nobody is given the data set more than kTimesMax times:
// a peer that asks for ever costs no more than that.
#pragma once

#include <map>
#include <vector>

#include "node/shard_store.h"

namespace skerry {

class ShardGiver {
 public:
  static constexpr int64_t kTimesMax = 2;

  explicit ShardGiver(ShardStore* store) : store_(store) {}

  // total_bytes −1: it does not have it, or `to` had enough. `shards` are those of the run,
  // `request` is sane (offset ≥ 0, 0 < length ≤ kObjectChunkBytesMax).
  ObjectChunk Answer(const std::vector<ShardName>& shards, const NodeId& to,
                     const ObjectRequest& request);

 private:
  ShardStore* store_;
  std::map<NodeId, int64_t> given_;  // bytes
};

}  // namespace skerry
