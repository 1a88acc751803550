#include "node/state_fetcher.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/check.h"

namespace skerry {

std::string StateObject(int32_t stage, int64_t version) {
  return version < 0 ? absl::StrFormat("replica/%d", stage)
                     : absl::StrFormat("replica/%d/%d", stage, version);
}

void StateFetcher::Tend(Context& context, const std::vector<NodeId>& donors) {
  if (Done() || donors.empty()) return;
  const bool lives = std::find(donors.begin(), donors.end(), donor_) != donors.end();
  if (asking_ && lives && context.now() - progress_ < kPatience) return;
  donor_ = donors[next_donor_++ % donors.size()];
  Ask(context);
}

void StateFetcher::Ask(Context& context) {
  asking_ = true;
  progress_ = context.now();
  version_ = total_ = -1;
  received_ = 0;
  bytes_.clear();
  requested_ = kObjectChunkBytesMax;
  send_(context, donor_, ObjectRequest{StateObject(stage_), 0, kObjectChunkBytesMax});
}

void StateFetcher::RequestMore(Context& context) {
  while (requested_ < total_ && requested_ - received_ < kWindow * kObjectChunkBytesMax) {
    const int64_t length = std::min(kObjectChunkBytesMax, total_ - requested_);
    send_(context, donor_, ObjectRequest{StateObject(stage_, version_), requested_, length});
    requested_ += length;
  }
}

void StateFetcher::OnChunk(Context& context, const NodeId& from, const ObjectChunk& chunk) {
  if (!asking_ || Done() || from != donor_) return;
  if (chunk.total_bytes < 0) {  // nothing, or nothing any more
    asking_ = false;
    return;
  }
  if (total_ < 0) {
    const std::string prefix = StateObject(stage_) + "/";
    int64_t version = -1;
    const bool names = chunk.object.starts_with(prefix) &&
                       absl::SimpleAtoi(chunk.object.substr(prefix.size()), &version);
    if (!names || version < 0 || chunk.total_bytes == 0 || chunk.total_bytes > kStateBytesMax) {
      asking_ = false;
      return;
    }
    version_ = version;
    total_ = chunk.total_bytes;
    ++transfers_;
  }
  const int64_t size = SizeOf(chunk.values);
  const bool fits = chunk.object == StateObject(stage_, version_) && chunk.offset == received_ &&
                    chunk.total_bytes == total_ && size > 0 && size <= total_ - received_;
  if (!fits) return;
  const auto values = View(chunk.values);
  bytes_.insert(bytes_.end(), values.begin(), values.end());
  received_ += size;
  progress_ = context.now();
  RequestMore(context);
}

Payload StateFetcher::state() const {
  SKERRY_CHECK(Done());
  return MakeHollowPayload(bytes_, total_);
}

void StateFetcher::Reject() {
  asking_ = false;
  total_ = -1;
  received_ = 0;
  bytes_.clear();
}

std::string StateFetcher::WaitingFor() const {
  if (!asking_) return "a replica that can give the state of its stage";
  if (total_ < 0) return "state of the stage from " + donor_.Short();
  return absl::StrFormat("state of the stage from %s, %d of %d MB", donor_.Short(),
                         received_ / 1'000'000, total_ / 1'000'000);
}

}  // namespace skerry
