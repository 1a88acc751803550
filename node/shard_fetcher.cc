#include "node/shard_fetcher.h"

#include <algorithm>

#include "common/status.h"

namespace skerry {

void ShardFetcher::Start(Context& context, const std::vector<ShardName>& shards) {
  started_ = true;
  missing_.clear();
  for (const ShardName& shard : shards) {
    if (!store_->Has(shard)) missing_.push_back(shard);
  }
  BeginShard(context);
}

void ShardFetcher::BeginShard(Context& context) {
  if (missing_.empty()) return;
  if (missing_.back().bytes <= 0 || missing_.back().bytes > kShardBytesMax) {
    status_ = InvalidArgument("shard %s: want 1 to %d bytes, the coordinator announced %d",
                              missing_.back().file, kShardBytesMax, missing_.back().bytes);
    return;
  }
  bytes_ = std::make_shared<Bytes>();
  received_ = requested_ = 0;
  RequestMore(context);
}

void ShardFetcher::RequestMore(Context& context) {
  const ShardName& shard = missing_.back();
  while (requested_ < shard.bytes && requested_ - received_ < kWindow * kChunkBytes) {
    const int64_t length = std::min(kChunkBytes, shard.bytes - requested_);
    send_(context, ObjectRequest{"shard/" + shard.file, requested_, length});
    requested_ += length;
  }
}

void ShardFetcher::Resume(Context& context) {
  if (missing_.empty() || job_ != 0 || !started_) return;
  requested_ = received_;
  RequestMore(context);
}

void ShardFetcher::OnChunk(Context& context, const ObjectChunk& chunk) {
  if (missing_.empty() || job_ != 0 || chunk.object != "shard/" + missing_.back().file) return;
  const ShardName shard = missing_.back();
  if (chunk.total_bytes < 0) {
    status_ = NotFound("shard %s: the coordinator does not have it", shard.file);
    return;
  }
  if (chunk.offset != received_ || received_ + SizeOf(chunk.values) > shard.bytes) return;
  bytes_->insert(bytes_->end(), chunk.values->begin(), chunk.values->end());
  received_ += SizeOf(chunk.values);
  if (received_ < shard.bytes) {
    RequestMore(context);
    return;
  }
  put_ = std::make_shared<absl::Status>();
  job_ = context.Submit(
      {"put shard", Duration::Millis(1),
       [store = store_, shard, bytes = bytes_, put = put_] { *put = store->Put(shard, *bytes); }});
}

bool ShardFetcher::OnJobDone(Context& context, JobId job) {
  if (job_ == 0 || job != job_) return false;
  job_ = 0;
  bytes_.reset();
  constexpr int kAttemptsMax = 3;
  if (put_->ok()) {
    missing_.pop_back();
    // With the index others may have come, from where it says that they are.
    while (!missing_.empty() && store_->Has(missing_.back())) missing_.pop_back();
    attempts_ = 0;
  } else if (!absl::IsDataLoss(*put_) || ++attempts_ >= kAttemptsMax) {
    status_ = *put_;
    return true;
  }
  BeginShard(context);
  return true;
}

}  // namespace skerry
