#include "node/shard_fetcher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

constexpr size_t kSaidMax = 1024;  // shards of an earlier life that are told of

}  // namespace

void ShardFetcher::Start(Context& context, const std::vector<ShardName>& shards, size_t part,
                         size_t parts) {
  started_ = true;
  asking_ = false;
  if (job_ != 0) forgotten_.insert(std::exchange(job_, 0));
  missing_.clear();
  std::vector<ShardName> held;
  // The index is the last of a data set, and is fetched first: it may say where the others are.
  const size_t turned = shards.empty() ? 0 : shards.size() - 1;
  for (size_t i = 0; i < shards.size(); ++i) {
    const ShardName& shard = i < turned ? shards[(i + turned * part / parts) % turned] : shards[i];
    (store_->Has(shard) ? held : missing_).push_back(shard);
  }
  if (missing_.empty()) return;
  for (size_t i = 0; i < std::min(held.size(), kSaidMax); ++i) SayHeld(context, held[i]);
  BeginShard(context);
}

bool ShardFetcher::IsShared(const ShardName& shard) const {
  return shard.bytes >= kSharedBytesMin;
}

void ShardFetcher::BeginShard(Context& context) {
  if (missing_.empty()) return;
  if (missing_.back().bytes <= 0 || missing_.back().bytes > kShardBytesMax) {
    status_ = InvalidArgument("shard %s: want 1 to %d bytes, the coordinator announced %d",
                              missing_.back().file, kShardBytesMax, missing_.back().bytes);
    return;
  }
  holders_.clear();
  if (IsShared(missing_.back()) && left_.size() < kFailuresMax) return AskForHolders(context);
  BeginWith(context, coordinator_);
}

void ShardFetcher::AskForHolders(Context& context) {
  asking_ = true;
  send_(context, coordinator_,
        ObjectRequest{kHoldersPrefix + missing_.back().file, 0,
                      static_cast<int64_t>(kHoldersMax * sizeof(NodeId{}.bytes))});
}

void ShardFetcher::OnHolders(Context& context, const ObjectChunk& chunk) {
  asking_ = false;
  const auto ids = View(chunk.values);
  constexpr size_t kIdBytes = sizeof(NodeId{}.bytes);
  for (size_t at = 0; at + kIdBytes <= std::min(ids.size(), kHoldersMax * kIdBytes);
       at += kIdBytes) {
    NodeId holder;
    std::memcpy(holder.bytes.data(), ids.data() + at, kIdBytes);
    const bool asks = holder != context.self() && holder != coordinator_ &&
                      !left_.contains(holder) &&
                      std::find(holders_.begin(), holders_.end(), holder) == holders_.end();
    if (asks) holders_.push_back(holder);
  }
  NextSource(context);
}

void ShardFetcher::NextSource(Context& context) {
  if (holders_.empty() || left_.size() >= kFailuresMax) return BeginWith(context, coordinator_);
  const NodeId holder = holders_.front();
  holders_.pop_front();
  BeginWith(context, holder);
}

void ShardFetcher::BeginWith(Context& context, const NodeId& source) {
  source_ = source;
  bytes_ = std::make_shared<Bytes>();
  received_ = requested_ = at_timer_ = 0;
  if (timer_ != 0) context.CancelTimer(std::exchange(timer_, 0));
  if (source_ != coordinator_) timer_ = context.StartTimer(kPatience);
  RequestMore(context);
}

void ShardFetcher::HolderFailed(Context& context) {
  left_.insert(source_);
  NextSource(context);
}

bool ShardFetcher::OnTimer(Context& context, TimerId timer) {
  if (timer_ == 0 || timer != timer_) return false;
  timer_ = 0;
  if (missing_.empty() || job_ != 0 || source_ == coordinator_) return true;
  if (received_ - at_timer_ < kLeastBytes) {
    HolderFailed(context);
  } else {
    at_timer_ = received_;
    timer_ = context.StartTimer(kPatience);
  }
  return true;
}

void ShardFetcher::RequestMore(Context& context) {
  const ShardName& shard = missing_.back();
  while (requested_ < shard.bytes && requested_ - received_ < kWindow * kChunkBytes) {
    const int64_t length = std::min(kChunkBytes, shard.bytes - requested_);
    send_(context, source_, ObjectRequest{kShardPrefix + shard.file, requested_, length});
    requested_ += length;
  }
}

void ShardFetcher::Resume(Context& context) {
  if (missing_.empty() || job_ != 0 || !started_) return;
  if (asking_) return AskForHolders(context);
  if (source_ != coordinator_) return;
  requested_ = received_;
  RequestMore(context);
}

bool ShardFetcher::OnChunk(Context& context, const NodeId& from, const ObjectChunk& chunk) {
  if (missing_.empty() || job_ != 0) return false;
  const ShardName shard = missing_.back();
  if (asking_) {
    if (from != coordinator_ || chunk.object != kHoldersPrefix + shard.file) return false;
    OnHolders(context, chunk);
    return true;
  }
  if (from != source_ || chunk.object != kShardPrefix + shard.file) return false;
  if (chunk.total_bytes < 0) {
    if (from != coordinator_) {
      NextSource(context);  // it was thought to have it, and need not be at fault
    } else {
      status_ = NotFound("shard %s: the coordinator does not have it", shard.file);
    }
    return true;
  }
  const auto values = View(chunk.values);
  const auto size = std::ssize(values);
  if (size == 0 || chunk.offset != received_ || received_ + size > shard.bytes) return false;
  bytes_->insert(bytes_->end(), values.begin(), values.end());
  received_ += size;
  if (received_ < shard.bytes) {
    RequestMore(context);
    return true;
  }
  put_ = std::make_shared<absl::Status>();
  job_ = context.Submit(
      {"put shard", Duration::Millis(1),
       [store = store_, shard, bytes = bytes_, put = put_] { *put = store->Put(shard, *bytes); }});
  return true;
}

void ShardFetcher::SayHeld(Context& context, const ShardName& shard) {
  if (!IsShared(shard)) return;
  send_(context, coordinator_, ObjectChunk{kShardPrefix + shard.file, 0, shard.bytes, nullptr});
}

bool ShardFetcher::OnJobDone(Context& context, JobId job) {
  if (forgotten_.erase(job) > 0) return true;
  if (job_ == 0 || job != job_) return false;
  job_ = 0;
  bytes_.reset();
  constexpr int kAttemptsMax = 3;
  const bool is_from_peer = source_ != coordinator_;
  if (put_->ok()) {
    if (is_from_peer) from_peers_ += missing_.back().bytes;
    SayHeld(context, missing_.back());
    missing_.pop_back();
    // With the index others may have come, from where it says that they are.
    while (!missing_.empty() && store_->Has(missing_.back())) missing_.pop_back();
    attempts_ = 0;
  } else if (absl::IsDataLoss(*put_) && is_from_peer) {
    HolderFailed(context);
    return true;
  } else if (!absl::IsDataLoss(*put_) || ++attempts_ >= kAttemptsMax) {
    status_ = *put_;
    return true;
  }
  BeginShard(context);
  return true;
}

}  // namespace skerry
