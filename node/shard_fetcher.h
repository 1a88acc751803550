// Fetches the training data this node lacks, chunk by chunk, and puts whole verified shards into
// the store: from nodes that have a shard already, whom the coordinator names, else from the
// coordinator. A part of the node's actor.
//
// For each shard of kSharedBytesMin and more: ask the coordinator for "holders/FILE" (an object
// whose bytes are ids of nodes, the best one first), then each of them in turn for "shard/FILE",
// then the coordinator. A holder that does not have it is passed over; one that is slower than
// kLeastBytes in kPatience, or sends what is not what the digest says, is not asked again, and
// after kFailuresMax such nobody but the coordinator is. So the worst that holders can do costs
// time, and no more than kPatience each or what kLeastBytes in kPatience amounts to. Whoever has
// kept such a shard tells the coordinator: an ObjectChunk without values.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "node/shard_store.h"
#include "wire/actor.h"

namespace skerry {

inline constexpr char kShardPrefix[] = "shard/";
inline constexpr char kHoldersPrefix[] = "holders/";

class ShardFetcher {
 public:
  static constexpr int64_t kChunkBytes = 256 << 10;
  static constexpr int64_t kShardBytesMax = int64_t{1} << 30;
  static constexpr int kWindow = 4;                    // chunks asked for and not here yet
  static constexpr int64_t kSharedBytesMin = 1 << 20;  // less is not worth a question
  static constexpr int64_t kLeastBytes = 2 << 20;
  static constexpr Duration kPatience = Duration::Seconds(10);
  static constexpr size_t kFailuresMax = 3;
  static constexpr size_t kHoldersMax = 8;  // of one answer that are believed

  using SendFn = std::function<void(Context&, const NodeId& to, Message)>;
  ShardFetcher(ShardStore* store, NodeId coordinator, SendFn send)
      : store_(store), coordinator_(coordinator), send_(std::move(send)) {}

  // Starts over with what is missing of `shards`. `part` of `parts` nodes that begin together: each
  // begins with other shards, so that they have something to give each other.
  void Start(Context& context, const std::vector<ShardName>& shards, size_t part = 0,
             size_t parts = 1);
  // Asks again for what was under way from the coordinator (it restarted).
  void Resume(Context& context);
  // False: it was not asked for.
  bool OnChunk(Context& context, const NodeId& from, const ObjectChunk& chunk);
  // True if `job` was the fetcher's. A shard that did not verify is fetched again; other failures
  // are in status().
  bool OnJobDone(Context& context, JobId job);
  bool OnTimer(Context& context, TimerId timer);  // true if it was the fetcher's

  bool Done() const { return started_ && missing_.empty(); }
  const absl::Status& status() const { return status_; }
  int64_t from_peers() const { return from_peers_; }  // bytes of shards that verified

 private:
  void RequestMore(Context& context);
  void BeginShard(Context& context);
  void AskForHolders(Context& context);
  void OnHolders(Context& context, const ObjectChunk& chunk);
  void BeginWith(Context& context, const NodeId& source);
  void NextSource(Context& context);
  void HolderFailed(Context& context);
  void SayHeld(Context& context, const ShardName& shard);
  bool IsShared(const ShardName& shard) const;

  ShardStore* store_;
  NodeId coordinator_;
  SendFn send_;
  bool started_ = false;
  std::vector<ShardName> missing_;  // the last one is under way
  bool asking_ = false;             // for its holders
  NodeId source_;                   // else it comes from there
  std::deque<NodeId> holders_;      // to be asked after that
  std::set<NodeId> left_;           // not asked again
  TimerId timer_ = 0;
  int64_t at_timer_ = 0;  // bytes that were here when it began
  std::shared_ptr<Bytes> bytes_;
  int64_t received_ = 0;  // in order: requests are answered in order
  int64_t requested_ = 0;
  JobId job_ = 0;
  std::set<JobId> forgotten_;  // of before it started over
  std::shared_ptr<absl::Status> put_;
  int attempts_ = 0;
  int64_t from_peers_ = 0;
  absl::Status status_;
};

}  // namespace skerry
