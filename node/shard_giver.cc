#include "node/shard_giver.h"

#include <algorithm>
#include <utility>

#include "node/shard_fetcher.h"

namespace skerry {

ObjectChunk ShardGiver::Answer(const std::vector<ShardName>& shards, const NodeId& to,
                               const ObjectRequest& request) {
  ObjectChunk none = {request.object, request.offset, -1, nullptr};
  int64_t all = 0;
  const ShardName* wanted = nullptr;
  for (const ShardName& shard : shards) {
    all += shard.bytes;
    if (request.object == kShardPrefix + shard.file) wanted = &shard;
  }
  if (wanted == nullptr || request.offset >= wanted->bytes || !store_->Has(*wanted)) return none;
  const int64_t length = std::min(request.length, wanted->bytes - request.offset);
  int64_t& given = given_[to];
  if (given + length > kTimesMax * all) return none;
  Payload values = store_->Read(*wanted, request.offset, length);
  if (SizeOf(values) != length) return none;
  given += length;
  return {request.object, request.offset, wanted->bytes, std::move(values)};
}

}  // namespace skerry
