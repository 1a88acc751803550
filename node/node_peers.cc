// Who else is here, and how each of them is reached: dialled, waited for, or through a relay.
#include <algorithm>
#include <set>
#include <utility>

#include "node/node_actor.h"

namespace skerry {

void NodeActor::On(Context& context, const NodeId& from, const Peers& message) {
  if (from != options_.coordinator) return void(++refused_);
  if (!message.complete) return ChangePeers(context, message.peers, message.gone);
  arriving_peers_.insert(arriving_peers_.end(), message.peers.begin(), message.peers.end());
  if (message.parts_left > 0) return;
  std::set<NodeId> gone;
  for (const auto& [id, peer] : peers_) gone.insert(id);
  for (const Peer& peer : arriving_peers_) gone.erase(peer.id);
  ChangePeers(context, std::exchange(arriving_peers_, {}), {gone.begin(), gone.end()});
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
    if (peers_.erase(peer) > 0) context.DisconnectPeer(peer);
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
