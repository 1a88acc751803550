// Fetches the training data this node lacks from the coordinator, chunk by chunk, and puts whole
// verified shards into the store. A part of the node's actor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "node/shard_store.h"
#include "wire/actor.h"

namespace skerry {

class ShardFetcher {
 public:
  static constexpr int64_t kChunkBytes = 256 << 10;
  static constexpr int64_t kShardBytesMax = int64_t{1} << 30;
  static constexpr int kWindow = 4;  // chunks asked for and not here yet

  using SendFn = std::function<void(Context&, Message)>;
  ShardFetcher(ShardStore* store, SendFn send) : store_(store), send_(std::move(send)) {}

  // Starts over with what is missing of `shards`.
  void Start(Context& context, const std::vector<ShardName>& shards);
  // Asks again for what was under way (the coordinator restarted).
  void Resume(Context& context);
  void OnChunk(Context& context, const ObjectChunk& chunk);
  // True if `job` was the fetcher's. A shard that did not verify is fetched again; other failures
  // are in status().
  bool OnJobDone(Context& context, JobId job);

  bool Done() const { return started_ && missing_.empty(); }
  const absl::Status& status() const { return status_; }

 private:
  void RequestMore(Context& context);
  void BeginShard(Context& context);

  ShardStore* store_;
  SendFn send_;
  bool started_ = false;
  std::vector<ShardName> missing_;  // the last one is under way
  std::shared_ptr<Bytes> bytes_;
  int64_t received_ = 0;  // in order: requests are answered in order
  int64_t requested_ = 0;
  JobId job_ = 0;
  std::shared_ptr<absl::Status> put_;
  int attempts_ = 0;
  absl::Status status_;
};

}  // namespace skerry
