// Who else is here, and how each of them is reached: dialled, waited for, or through a relay.
#include <algorithm>
#include <set>
#include <utility>

#include "node/node_actor.h"

namespace skerry {

void NodeActor::On(Context& context, const NodeId& from, const Peers& message) {
  if (from != options_.coordinator) return void(++refused_);
  for (const Peer& peer : message.peers) sought_.erase(peer.id);
  for (const NodeId& peer : message.gone) sought_.erase(peer);
  if (!message.complete) {
    knows_some_ |= message.partial;
    return ChangePeers(context, message.peers, message.gone);
  }
  arriving_peers_.insert(arriving_peers_.end(), message.peers.begin(), message.peers.end());
  if (message.parts_left > 0) return;
  knows_some_ = message.partial;
  std::set<NodeId> others;
  for (const auto& [id, peer] : peers_) others.insert(id);
  for (const Peer& peer : arriving_peers_) others.erase(peer.id);
  const std::vector<NodeId> gone(others.begin(), others.end());
  ChangePeers(context, std::exchange(arriving_peers_, {}),
              knows_some_ ? std::vector<NodeId>() : gone);
  // A coordinator that returned has not heard whom this node came to know meanwhile.
  if (!knows_some_) return;
  sought_.insert(gone.begin(), gone.end());
  Seek(context, sought_);
}

// Of whom this node was not told, where not everybody is told of everybody. The host keeps what is
// for them.
void NodeActor::SeekStranger(Context& context, const NodeId& node) {
  const bool is_known =
      node == options_.coordinator || node == options_.self || peers_.contains(node);
  if (!knows_some_ || is_known || !sought_.insert(node).second) return;
  Seek(context, {node});
}

void NodeActor::Seek(Context& context, const std::set<NodeId>& nodes) {
  if (nodes.empty()) return;
  Acquaint sought;
  for (const NodeId& node : nodes) {
    if (sought.nodes.size() < kAcquaintMax) sought.nodes.push_back(node);
  }
  Send(context, options_.coordinator, std::move(sought));
}

// Of a pair of which one side can be dialled, the other dials; if both can, both do.
std::string NodeActor::WayTo(const Peer& peer) const {
  if (!peer.endpoint.empty()) return peer.endpoint;
  return is_reachable_ ? "" : kThroughRelay;
}

void NodeActor::ChangePeers(Context& context, const std::vector<Peer>& here,
                            const std::vector<NodeId>& gone) {
  const auto relays_of = [&] {
    std::vector<NodeId> relays;
    for (const auto& [id, peer] : peers_) {
      if (peer.relays && !peer.endpoint.empty()) relays.push_back(id);
    }
    return relays;
  };
  const std::vector<NodeId> relays_before = relays_of();
  for (const NodeId& peer : gone) {
    ways_.erase(peer);
    if (peers_.erase(peer) > 0 || knows_some_) context.DisconnectPeer(peer);
  }
  for (const Peer& peer : here) {
    if (peer.id == options_.self) {
      is_reachable_ = !peer.endpoint.empty();
    } else {
      peers_[peer.id] = peer;
    }
  }
  for (const auto& [id, peer] : peers_) {
    const std::string way = WayTo(peer);
    const auto [it, is_new] = ways_.try_emplace(id, way);
    if (!is_new && it->second == way) continue;
    it->second = way;
    context.ConnectPeer(id, way);
  }
  if (const auto relays = relays_of(); relays != relays_before) context.SetRelays(relays);
}

}  // namespace skerry
