// Bulk objects: data that comes, base parameters that go; and the end.

#include <algorithm>
#include <utility>

#include "common/digest.h"
#include "common/status.h"
#include "node/node_actor.h"
#include "node/node_results.h"
#include "pipeline/plan/route.h"

namespace skerry {
namespace {

constexpr size_t kBaseRequestsMax = 64;

// Of a stage in training, between replicas.
bool IsOfState(const std::string& object) {
  return object.starts_with("table/") || object.starts_with("state/") ||
         object.starts_with("moments/");
}

}  // namespace

void NodeActor::On(Context& context, const NodeId& from, const ObjectRequest& message) {
  const bool sane =
      message.offset >= 0 && message.length > 0 && message.length <= kObjectChunkBytesMax;
  if (sane && IsOfState(message.object)) return OnStateRequest(context, from, message);
  if (sane && message.object.starts_with("checkpoint/")) {
    return OnCheckpointRequest(context, from, message);
  }
  if (sane && peers_.contains(from) && message.object.starts_with(kShardPrefix)) {
    return Send(context, from, giver_.Answer(shard_names_, from, message));
  }
  const bool mine =
      sane && from == options_.coordinator && message.object == absl::StrFormat("base/%d", stage_);
  if (!mine) return void(++refused_);
  if (state_ != State::kFinished) {
    Send(context, from, ObjectChunk{message.object, message.offset, -1, nullptr});
    return;
  }
  if (base_bytes_) return ServeBase(context, from, message);
  if (base_requests_.size() >= kBaseRequestsMax) return void(++refused_);
  base_requests_.emplace_back(from, message);
  if (heavy_ != Heavy::kNone) return;
  heavy_ = Heavy::kExport;
  results_ = std::make_shared<Results>();
  heavy_job_ =
      SubmitTracked(context, {"export", Duration::Millis(10),
                              [work = work_.get(), results = results_, adopt = !HasRounds()] {
                                if (adopt) work->AdoptBase();
                                results->base = work->BaseParameters();
                              }});
}

// Begins to fetch what it lacks; replicas of the stage begin at different places of it.
bool NodeActor::HasData(Context& context) {
  const auto& replicas = plan_->stages.front().replicas;
  const auto self = std::find(replicas.begin(), replicas.end(), options_.self);
  const auto part = static_cast<size_t>(self - replicas.begin()) % replicas.size();
  fetcher_.Start(context, shard_names_, part, replicas.size());
  if (!fetcher_.status().ok()) Fail(context, fetcher_.status());
  return fetcher_.status().ok() && fetcher_.Done();
}

void NodeActor::ServeBase(Context& context, const NodeId& to, const ObjectRequest& request) {
  SendPart(context, to, request, base_bytes_);
}

void NodeActor::SendPart(Context& context, const NodeId& to, const ObjectRequest& request,
                         const Payload& object) {
  const int64_t total = SizeOf(object);
  if (request.offset > total) return void(++refused_);
  const int64_t length = std::min(request.length, total - request.offset);
  const auto part = PartOf(object, request.offset, length);
  Send(context, to,
       ObjectChunk{request.object, request.offset, total,
                   MakeHollowPayload(Bytes(part.begin(), part.end()), length)});
}

void NodeActor::On(Context& context, const NodeId& from, const ObjectChunk& message) {
  if (state_fetcher_ && message.object.starts_with("replica/")) {
    if (heavy_ != Heavy::kNone || restored_) return;
    state_fetcher_->OnChunk(context, from, message);
    if (state_fetcher_->Done()) StartStateArrived(context);
    return;
  }
  if (IsOfState(message.object)) {  // what comes late is of no use, and of no harm
    if (!transfer_) return;
    transfer_->OnChunk(context, from, message);
    if (transfer_->Done() && heavy_ == Heavy::kNone) StateArrived(context);
    return;
  }
  const bool fetches = state_ == State::kPreparing || state_ == State::kCatchingUp;
  if (!fetches || !fetcher_.OnChunk(context, from, message)) return void(++refused_);
  if (!fetcher_.status().ok()) Fail(context, fetcher_.status());
}

void NodeActor::On(Context& context, const NodeId& from, const Shutdown& message) {
  if (from != options_.coordinator) return void(++refused_);
  state_ = State::kStopped;
  context.Stop(0, message.reason);
}

}  // namespace skerry
