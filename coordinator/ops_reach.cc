// Who can be dialled: nodes are dialled back, told what that showed, and tested again now and then.
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/border.h"
#include "coordinator/coordinator_actor.h"

namespace skerry {
namespace {

constexpr Duration kTestAgainAfter = Duration::Seconds(600);

}  // namespace

// What a test found holds as long as the node says that it listens at the same place.
void CoordinatorActor::TakeAddress(NodeRecord& record, const Hello& hello) const {
  record.relays = hello.relays;
  if (!options_.tests_reach) {
    record.endpoint = hello.endpoint;
  } else if (record.declared != hello.endpoint || record.declared.empty()) {
    record.declared = hello.endpoint;
    record.endpoint.clear();
    record.reach = {};
  }
}

Peer CoordinatorActor::PeerOf(const NodeId& node) const {
  const NodeRecord& record = state_.nodes.at(node);
  return {node, record.endpoint, record.region, record.relays};
}

void CoordinatorActor::TestReach(Context& context, const NodeId& node) {
  Dialled& dialled = dialled_.at(node);
  dialled.last = context.now();
  context.TryReach(node, dialled.listens);
}

void CoordinatorActor::TestAgain(Context& context) {
  for (auto& [node, dialled] : dialled_) {
    if (context.now() - dialled.last > kTestAgainAfter) TestReach(context, node);
  }
}

// From this process's own host.
void CoordinatorActor::On(Context& context, const NodeId& from, const Reachability& found) {
  const auto dialled = dialled_.find(found.node);
  if (from != context.self() || dialled == dialled_.end()) return void(++refused_);
  const NodeRecord& record = state_.nodes.at(found.node);
  const std::string at = ReachableAt(found);
  // One lost packet is no router.
  const bool was_reachable = record.IsTested() && !record.endpoint.empty();
  if (at.empty() && was_reachable && !std::exchange(dialled->second.doubted, true))
    return TestReach(context, found.node);
  dialled->second.doubted = false;
  const bool moved = !record.IsTested() || record.endpoint != at;
  if (moved || record.reach != found) Record(context, ReachRecord(found));
  context.Send(found.node, found);
  if (moved) {
    context.Event(at.empty() ? "unreachable" : "reachable",
                  EventFields({{"node", found.node.Short()}, {"seen", found.seen}, {"at", at}}));
  }
  if (auto hello = std::exchange(dialled->second.introduces, std::nullopt))
    return Introduce(context, found.node, *hello, dialled->second.peers_changed);
  if (moved && active_.contains(found.node)) PeersChanged(context, found.node);
}

}  // namespace skerry
