// Through both routers: connections that a relayed pair opens by dialling from both ends
// (hole_punch.h). What goes over them is sealed for the peer, as through the relay, and each is
// used once the peer has answered a fresh nonce over it: whoever else comes through the hole, or
// repeats what a relay has recorded, is nobody.
#include <sodium.h>

#include <utility>

#include "wire/transport/transport.h"

namespace skerry {
namespace {

// The other end has to be caught dialling, so tries are frequent and do not thin out.
constexpr int kRedialMs = 100, kNoBackoff = 0, kNoLingerMs = 0;

}  // namespace

bool Transport::IsDirect(const RelayedPair& pair, StripeId stripe) {
  if (!pair.punch.stands()) return false;
  const auto wire = pair.direct.find(stripe);
  return wire != pair.direct.end() && wire->second.ready;
}

std::set<NodeId> Transport::Punched() const {
  std::set<NodeId> punched;
  for (const auto& [peer, pair] : pairs_)
    if (pair.punch.stands() && UsesRelay(peer)) punched.insert(peer);
  return punched;
}

void Transport::TendDirect(const NodeId& peer, RelayedPair& pair) {
  const Instant now = Now();
  if (!UsesRelay(peer)) return;
  if (pair.punch.Tick(now)) CloseDirect(peer, pair);
  const auto control = pair.wires.find(kControlWire);
  if (control != pair.wires.end() && control->second.ready && pair.punch.WantsMeeting(now))
    SendPart(control->second.socket, nullptr, EncodeRelay(RelayMeet{peer, ""}));
  if (!pair.punch.KnocksNow(now)) return;
  for (auto& [stripe, wire] : pair.direct) {
    randombytes_buf(&wire.nonce, sizeof wire.nonce);
    SendDirect(pair, stripe, wire, EncodeRelay(ReachNonce{wire.nonce, false}));
  }
}

// ---- the relay ---------------------------------------------------------------------------------

// Both are told in one breath: they dial at the same time, but for the ways to them.
void Transport::Introduce(const Origin& origin, const RelayMeet& meet) {
  const auto asker = seen_.find(origin.peer), peer = seen_.find(meet.peer);
  const auto other = desk_.Meet(Now(), origin.peer, origin.routing_id, meet.peer);
  if (!other || asker == seen_.end() || peer == seen_.end()) return;
  SendPart(router_, &*other, EncodeRelay(RelayMeet{origin.peer, asker->second}));
  SendPart(router_, &origin.routing_id, EncodeRelay(RelayMeet{meet.peer, peer->second}));
}

// ---- an end of a pair --------------------------------------------------------------------------

void Transport::OnMeet(const NodeId& peer, const RelayMeet& meet) {
  RelayedPair& pair = pairs_.at(peer);
  if (!pair.punch.OnMeet(Now())) return;
  pair.seen = meet.seen;
  DialDirect(peer, pair, kControlWire);
}

// One end serves CURVE, although neither listens.
zmq::socket_t Transport::ServingSocket() {
  zmq::socket_t dealer(context_, zmq::socket_type::dealer);
  SetCommonOptions(dealer);
  const CurveKey& secret = options_.identity.curve_secret();
  dealer.set(zmq::sockopt::curve_server, true);
  dealer.set(zmq::sockopt::curve_secretkey, zmq::buffer(secret.data(), secret.size()));
  dealer.set(zmq::sockopt::zap_domain, "skerry");
  return dealer;
}

void Transport::DialDirect(const NodeId& peer, RelayedPair& pair, StripeId stripe) {
  const NodeId& self = options_.identity.id();
  const auto endpoint =
      PunchEndpoint(pair.seen, PunchPort(self, peer, stripe), PunchPort(peer, self, stripe));
  if (!endpoint) return;
  try {
    PunchedWire wire;
    wire.socket = self < peer ? ServingSocket() : ClientSocket(peer);
    wire.socket.set(zmq::sockopt::linger, kNoLingerMs);
    wire.socket.set(zmq::sockopt::reconnect_ivl, kRedialMs);
    wire.socket.set(zmq::sockopt::reconnect_ivl_max, kNoBackoff);
    SetFamily(wire.socket, *endpoint);
    wire.socket.connect(*endpoint);
    pair.direct.insert_or_assign(stripe, std::move(wire));
  } catch (const zmq::error_t&) {
    // Out of descriptors: it stays with the relay.
  }
}

Transport::SendResult Transport::SendDirect(const RelayedPair& pair, StripeId stripe,
                                            PunchedWire& wire, std::span<const uint8_t> plain) {
  Bytes part = EncodeRelay(RelayData{options_.identity.id(), stripe, {}});
  part.reserve(part.size() + RelaySeal::kOverhead + plain.size());
  pair.seal.Seal(stripe, plain, part);
  return SendPart(wire.socket, nullptr, part);
}

// Looked up each time: who takes a frame may hang up on its sender.
void Transport::ReceiveDirect(const NodeId& peer, StripeId stripe,
                              const std::function<void(Received)>& take) {
  for (int i = 0; i < kReceiveAtOnce; ++i) {
    const auto pair = pairs_.find(peer);
    if (pair == pairs_.end()) return;
    const auto wire = pair->second.direct.find(stripe);
    if (wire == pair->second.direct.end()) return;
    const auto parts = ReceiveParts(&wire->second.socket);
    if (!parts) return;
    std::optional<RelayMessage> message;
    if (parts->size() == 1)
      message = DecodeRelay(std::span((*parts)[0].data<uint8_t>(), (*parts)[0].size()));
    const auto* data = message ? std::get_if<RelayData>(&*message) : nullptr;
    const auto plain = data != nullptr && data->peer == peer && data->stripe == stripe
                           ? pair->second.seal.Open(stripe, data->sealed)
                           : std::nullopt;
    if (!plain) {
      ++counters_.refused_sender;
      continue;
    }
    const auto inner = DecodeRelay(*plain);
    if (const auto* nonce = inner ? std::get_if<ReachNonce>(&*inner) : nullptr) {
      OnDirectNonce(peer, stripe, *nonce);
    } else {
      OnSealed(peer, stripe, *plain, take);
    }
  }
}

void Transport::OnDirectNonce(const NodeId& peer, StripeId stripe, const ReachNonce& nonce) {
  RelayedPair& pair = pairs_.at(peer);
  PunchedWire& wire = pair.direct.at(stripe);
  if (!nonce.is_answer) {
    SendDirect(pair, stripe, wire, EncodeRelay(ReachNonce{nonce.nonce, true}));
    return;
  }
  if (nonce.nonce != wire.nonce) return;
  const bool is_new = !std::exchange(wire.ready, true);
  if (stripe == kControlWire && pair.punch.OnHeard(Now())) {
    for (StripeId bulk = 0; bulk < kRelayedStripes; ++bulk) DialDirect(peer, pair, bulk);
    DialDirect(peer, pair, kSignalStripe);
    std::erase_if(pair.wires, [](const auto& entry) { return entry.first != kControlWire; });
  }
  if (!is_new || !pair.punch.stands()) return;
  if (const auto link = links_.find(peer); link != links_.end() && UsesRelay(peer)) {
    link->second.sender.CloseStripe(stripe);  // what it knew of it was of the relay
    link->second.sender.OpenStripe(Now(), stripe);
  }
  if (stripe == kControlWire) FlushPeer(peer);
}

void Transport::CloseDirect(const NodeId& peer, RelayedPair& pair) {
  pair.direct.clear();
  const auto link = links_.find(peer);
  if (link == links_.end()) return;
  for (StripeId stripe = 0; stripe <= kControlWire; ++stripe)
    link->second.sender.CloseStripe(stripe);
  OpenReadyStripes(pair, link->second);
}

}  // namespace skerry
