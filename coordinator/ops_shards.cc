// Who has which training data (shard_holders.h; docs/PROTOCOL.md, 5).
#include <algorithm>
#include <utility>

#include "coordinator/coordinator_actor.h"

namespace skerry {
namespace {

// They began after all data was here.
bool HasAllData(Phase phase) {
  return phase == Phase::kTraining || phase == Phase::kWaitingForPeers ||
         phase == Phase::kWaitingForRound || phase == Phase::kFinished;
}

}  // namespace

void CoordinatorActor::NameHolders(Context& context, const NodeId& from,
                                   const ObjectRequest& request) {
  if (!active_.contains(from)) return void(++refused_);
  std::vector<NodeId> have_all;
  if (state_.plan && !state_.plan->stages.empty()) {
    for (const NodeId& node : state_.plan->stages.front().replicas) {
      const auto beat = beats_.find(node);
      if (beat != beats_.end() && HasAllData(beat->second.phase)) have_all.push_back(node);
    }
  }
  const std::vector<NodeId> holders = shard_holders_.Name(
      request.object, from, have_all, [&](const NodeId& node) { return active_.contains(node); });
  Introduce(context, from, {holders.begin(), holders.end()});
  Bytes ids;
  for (const NodeId& holder : holders) {
    ids.insert(ids.end(), holder.bytes.begin(), holder.bytes.end());
  }
  const auto total = std::ssize(ids);
  context.Send(from, ObjectChunk{request.object, 0, total, MakePayload(std::move(ids))});
}

}  // namespace skerry
