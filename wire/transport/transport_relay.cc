// Through relays: the wires of pairs that cannot dial each other, and forwarding for others.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/status.h"
#include "wire/codec/limits.h"
#include "wire/transport/transport.h"

namespace skerry {
namespace {

constexpr int64_t kGotEvery = int64_t{64} << 10;
constexpr Duration kBusyRest = Duration::Millis(200);
constexpr size_t kPeerAt = sizeof kRelayMagic + 1;  // in an encoded RelayData

}  // namespace

absl::Status Transport::Relay(const NodeId& peer) {
  SKERRY_RETURN_IF_ERROR(Allow(peer));
  if (!through_relay_.insert(peer).second) return absl::OkStatus();
  if (lines_.erase(peer) > 0) CloseStripes(peer);
  FlushPeer(peer);
  return absl::OkStatus();
}

void Transport::SetRelays(std::vector<NodeId> relays, const NodeId& always) {
  relays_ = std::move(relays);
  always_ = always;
  relays_tended_ = Instant();  // at the next turn
}

bool Transport::UsesRelay(const NodeId& peer) const {
  if (routing_ids_.contains(peer) || peer == always_) return false;
  if (through_relay_.contains(peer)) return true;
  const auto line = lines_.find(peer);
  if (line != lines_.end() && line->second.heard) return false;
  if (relays_.empty() && always_.IsZero()) return false;
  const auto pair = pairs_.find(peer);
  if (pair != pairs_.end() && pair->second.called) return true;  // it finds no other way to us
  return line != lines_.end() && Now() - line->second.dialled > kDirectPatience;
}

std::map<NodeId, NodeId> Transport::Relayed() const {
  std::map<NodeId, NodeId> relayed;
  for (const auto& [peer, pair] : pairs_) {
    if (pair.wired && UsesRelay(peer) && !pair.punch.stands()) relayed[peer] = *pair.wired;
  }
  return relayed;
}

void Transport::HearDirectly(const Origin& origin) {
  if (origin.relayed) return;
  const auto line = lines_.find(origin.peer);
  if (line == lines_.end() || !origin.dialled || line->second.heard) return;
  line->second.heard = true;
  EndRelaying(origin.peer);
}

// ---- an end of a pair --------------------------------------------------------------------------

Transport::RelayedPair* Transport::PairWith(const NodeId& peer) {
  const auto it = pairs_.find(peer);
  if (it != pairs_.end()) return &it->second;
  auto seal = RelaySeal::Between(options_.identity, peer);
  if (!seal.ok()) return nullptr;
  const bool asks = options_.identity.id() < peer;
  auto& pair = pairs_.emplace(peer, RelayedPair(*std::move(seal), asks)).first->second;
  pair.route.SetOrder(Now(), RelayOrder(options_.identity.id(), peer, relays_, always_));
  return &pair;
}

// What the route has decided is done: the wires lead to its relay.
void Transport::SyncWires(const NodeId& peer, RelayedPair& pair) {
  if (pair.wired == pair.route.relay()) return;
  pair.wired = pair.route.relay();
  pair.wires.clear();
  if (const auto link = links_.find(peer); link != links_.end() && UsesRelay(peer)) {
    for (StripeId stripe = 0; stripe <= kControlWire; ++stripe)
      if (!IsDirect(pair, stripe)) link->second.sender.CloseStripe(stripe);
  }
  OpenWire(peer, pair, kControlWire);
}

void Transport::OpenReadyStripes(const RelayedPair& pair, Link& link) {
  const auto open = [&](StripeId stripe) {
    if (!link.sender.HasStripe(stripe)) link.sender.OpenStripe(Now(), stripe);
  };
  for (const auto& [stripe, wire] : pair.wires)
    if (wire.ready) open(stripe);
  for (const auto& [stripe, wire] : pair.direct)
    if (IsDirect(pair, stripe)) open(stripe);
}

void Transport::OpenWire(const NodeId& peer, RelayedPair& pair, StripeId stripe) {
  if (!pair.wired || pair.wires.contains(stripe)) return;
  const auto relay = lines_.find(*pair.wired);
  if (relay == lines_.end()) return;  // not dialled yet
  try {
    RelayWire wire;
    wire.socket = DialSocket(*pair.wired, relay->second.endpoint, false);
    wire.attached = Now();
    SendPart(wire.socket, nullptr, EncodeRelay(RelayAttach{peer, stripe}));
    pair.wires.emplace(stripe, std::move(wire));
  } catch (const zmq::error_t&) {
    // Out of descriptors; TendRelays tries again.
  }
}

void Transport::EndRelaying(const NodeId& peer) {
  if (pairs_.erase(peer) == 0) return;
  const auto link = links_.find(peer);
  if (link == links_.end()) return;
  for (StripeId stripe = 0; stripe <= kControlWire; ++stripe)
    link->second.sender.CloseStripe(stripe);
}

// As many wires as there is bulk for, once the pair is joined at all.
void Transport::PrepareWires(const NodeId& peer, Link& link) {
  RelayedPair* pair = PairWith(peer);
  if (pair == nullptr) return;
  pair->route.Want(Now());
  SyncWires(peer, *pair);
  if (pair->route.state() == RelayRoute::State::kReady && !pair->punch.stands()) {
    const uint16_t wanted = std::min(link.sender.WantedStripes(Now()), kRelayedStripes);
    for (StripeId stripe = 0; stripe < wanted; ++stripe) OpenWire(peer, *pair, stripe);
    if (wanted > 0) OpenWire(peer, *pair, kSignalStripe);
  }
  // Some stood before there was anything to send: the peer had.
  OpenReadyStripes(*pair, link);
}

Transport::SendResult Transport::SendSealed(const NodeId& peer, StripeId stripe,
                                            std::span<const uint8_t> plain) {
  RelayedPair* pair = PairWith(peer);
  if (pair == nullptr) return SendResult::kNoWay;
  pair->route.Want(Now());
  SyncWires(peer, *pair);
  if (IsDirect(*pair, stripe)) return SendDirect(*pair, stripe, pair->direct.at(stripe), plain);
  const auto wire = pair->wires.find(stripe);
  if (wire == pair->wires.end() || !wire->second.ready) return SendResult::kNoWay;
  Bytes part = EncodeRelay(RelayData{peer, stripe, {}});
  part.reserve(part.size() + RelaySeal::kOverhead + plain.size());
  pair->seal.Seal(stripe, plain, part);
  return SendPart(wire->second.socket, nullptr, part);
}

// Envelope's size, envelope, payload. What is bulk goes in chunks instead.
Transport::SendResult Transport::SendSealedFrame(const OutgoingFrame& frame) {
  const auto payload = View(frame.payload);
  const auto envelope_bytes = static_cast<uint32_t>(frame.envelope.size());
  Bytes plain(sizeof envelope_bytes);
  std::memcpy(plain.data(), &envelope_bytes, sizeof envelope_bytes);
  if (plain.size() + frame.envelope.size() + payload.size() + RelaySeal::kOverhead >
      kSealedBytesMax) {
    return SendResult::kSent;  // encoded before it was known; the courier says it again, in chunks
  }
  plain.insert(plain.end(), frame.envelope.begin(), frame.envelope.end());
  plain.insert(plain.end(), payload.begin(), payload.end());
  const SendResult result = SendSealed(frame.to, kControlWire, plain);
  if (result == SendResult::kSent) ++counters_.frames_sent;
  return result;
}

void Transport::TendRelays() {
  const Instant now = Now();
  if ((pairs_.empty() && desk_.wires() == 0) || now - relays_tended_ < kTendEvery) return;
  relays_tended_ = now;
  std::vector<RelayDesk::Notice> notices;
  desk_.DropSilent(now, notices);
  SayNotices(notices);
  for (auto& [peer, pair] : pairs_) {
    pair.route.SetOrder(now, RelayOrder(options_.identity.id(), peer, relays_, always_));
    if (UsesRelay(peer)) pair.route.Tick(now);
    SyncWires(peer, pair);
    OpenWire(peer, pair, kControlWire);
    for (auto& [stripe, wire] : pair.wires) {
      if (now - wire.attached < RelayRoute::kAttachEvery) continue;
      wire.attached = now;
      SendPart(wire.socket, nullptr, EncodeRelay(RelayAttach{peer, stripe}));
      if (wire.got != wire.said) SendPart(wire.socket, nullptr, EncodeRelay(RelayGot{wire.got}));
      wire.said = wire.got;
    }
    TendDirect(peer, pair);
  }
}

// The pair is looked up each time: who takes a frame may hang up on its sender.
void Transport::ReceiveRelayed(const NodeId& peer, StripeId stripe,
                               const std::function<void(Received)>& take) {
  for (int i = 0; i < kReceiveAtOnce; ++i) {
    const auto pair = pairs_.find(peer);
    if (pair == pairs_.end()) return;
    const auto wire = pair->second.wires.find(stripe);
    if (wire == pair->second.wires.end()) return;
    const auto parts = ReceiveParts(&wire->second.socket);
    if (!parts) return;
    std::optional<RelayMessage> message;
    if (parts->size() == 1)
      message = DecodeRelay(std::span((*parts)[0].data<uint8_t>(), (*parts)[0].size()));
    if (message && std::holds_alternative<RelayState>(*message)) {
      const auto& state = std::get<RelayState>(*message);
      if (state.peer == peer && state.stripe == stripe) OnRelayState(peer, stripe, state);
    } else if (message && std::holds_alternative<RelayData>(*message)) {
      const auto& data = std::get<RelayData>(*message);
      if (data.peer == peer && data.stripe == stripe) OnRelayData(peer, stripe, data, take);
    } else if (message && std::holds_alternative<RelayMeet>(*message)) {
      const auto& meet = std::get<RelayMeet>(*message);
      if (meet.peer == peer && stripe == kControlWire) OnMeet(peer, meet);
    } else {
      ++counters_.refused_malformed;
    }
  }
}

void Transport::OnRelayState(const NodeId& peer, StripeId stripe, const RelayState& state) {
  RelayedPair& pair = pairs_.at(peer);
  RelayWire& wire = pair.wires.at(stripe);
  if (state.is == RelayState::Is::kBusy) {
    pair.route.OnHeard(Now(), *pair.wired);
    if (stripe == kControlWire) return;  // the courier says it again
    wire.attached = Now() - RelayRoute::kAttachEvery + kBusyRest;
  }
  const bool ready = state.is == RelayState::Is::kReady;
  const bool changed = std::exchange(wire.ready, ready) != ready;
  if (stripe == kControlWire) pair.route.OnState(Now(), *pair.wired, state.is);
  if (!changed || IsDirect(pair, stripe)) return;
  if (const auto link = links_.find(peer); link != links_.end() && UsesRelay(peer)) {
    ready ? link->second.sender.OpenStripe(Now(), stripe) : link->second.sender.CloseStripe(stripe);
  }
  if (stripe != kControlWire || !ready) return;
  rerouted_.insert(peer);
  FlushPeer(peer);
}

void Transport::OnRelayData(const NodeId& peer, StripeId stripe, const RelayData& data,
                            const std::function<void(Received)>& take) {
  RelayedPair& pair = pairs_.at(peer);
  RelayWire& wire = pair.wires.at(stripe);
  wire.got += static_cast<int64_t>(data.sealed.size());
  if (wire.got - wire.said >= kGotEvery) {
    wire.said = wire.got;
    SendPart(wire.socket, nullptr, EncodeRelay(RelayGot{wire.got}));
  }
  pair.route.OnHeard(Now(), *pair.wired);
  const auto plain = pair.seal.Open(stripe, data.sealed);
  if (!plain) return void(++counters_.refused_sender);
  OnSealed(peer, stripe, *plain, take);
}

void Transport::OnSealed(const NodeId& peer, StripeId stripe, std::span<const uint8_t> plain,
                         const std::function<void(Received)>& take) {
  if (IsLinkMessage(plain)) {
    const auto via = stripe == kControlWire ? std::nullopt : std::optional<StripeId>(stripe);
    return OnLinkPart({peer, true, via, "", true}, plain, take);
  }
  uint32_t envelope_bytes = 0;
  if (plain.size() >= sizeof envelope_bytes)
    std::memcpy(&envelope_bytes, plain.data(), sizeof envelope_bytes);
  const auto frame = plain.subspan(std::min(plain.size(), sizeof envelope_bytes));
  if (envelope_bytes == 0 || envelope_bytes > frame.size())
    return void(++counters_.refused_malformed);
  if (auto received =
          AcceptRelayed(peer, frame.first(envelope_bytes), frame.subspan(envelope_bytes)))
    take(*std::move(received));
}

// ---- a relay -----------------------------------------------------------------------------------

void Transport::SayNotices(const std::vector<RelayDesk::Notice>& notices) {
  for (const RelayDesk::Notice& notice : notices) {
    if (SendPart(router_, &notice.to, EncodeRelay(notice.state)) != SendResult::kNoWay) continue;
    std::vector<RelayDesk::Notice> more;
    desk_.Drop(notice.to, more);
    SayNotices(more);
  }
}

void Transport::Forward(const Origin& origin, const RelayData& data,
                        std::span<const uint8_t> part) {
  const auto to = desk_.Forward(origin.peer, origin.routing_id, data);
  // What is not forwarded its sender has to send again.
  const RelayState refused{data.peer, data.stripe, RelayState::Is::kBusy};
  if (!to) return SayNotices({{origin.routing_id, refused}});
  Bytes forwarded(part.begin(), part.end());
  std::memcpy(forwarded.data() + kPeerAt, origin.peer.bytes.data(), origin.peer.bytes.size());
  const SendResult result = SendPart(router_, &*to, forwarded);
  if (result == SendResult::kSent) return;
  desk_.TakeBack(*to, static_cast<int64_t>(data.sealed.size()));
  std::vector<RelayDesk::Notice> notices = {{origin.routing_id, refused}};
  if (result == SendResult::kNoWay) desk_.Drop(*to, notices);
  SayNotices(notices);
}

void Transport::OnRelayPart(const Origin& origin, std::span<const uint8_t> part) {
  const auto message = DecodeRelay(part);
  if (!message) return void(++counters_.refused_malformed);
  if (const auto* nonce = std::get_if<ReachNonce>(&*message)) {
    if (!nonce->is_answer)
      Answer(origin, EncodeRelay(ReachNonce{nonce->nonce, true, nonce->padding}));
    return;
  }
  if (const auto* call = std::get_if<RelayCall>(&*message)) {
    if (!allowed_.contains(call->peer) || call->peer == origin.peer) return;
    RelayedPair* pair = PairWith(call->peer);
    if (pair == nullptr) return;
    pair->called = true;
    pair->route.OnCall(Now(), origin.peer, options_.identity.id() < call->peer);
    SyncWires(call->peer, *pair);
    if (pair->wired == origin.peer) OpenWire(call->peer, *pair, call->stripe);
    return;
  }
  if (!options_.relays || origin.dialled) return void(++counters_.refused_malformed);
  if (const auto* attach = std::get_if<RelayAttach>(&*message)) {
    std::vector<RelayDesk::Notice> notices;
    if (!allowed_.contains(attach->peer)) {
      const RelayState refused{attach->peer, attach->stripe, RelayState::Is::kRefused};
      return SayNotices({{origin.routing_id, refused}});
    }
    const bool calls = desk_.Attach(Now(), origin.peer, origin.routing_id, *attach, notices);
    SayNotices(notices);
    if (calls) SendControl(attach->peer, EncodeRelay(RelayCall{origin.peer, attach->stripe}));
  } else if (const auto* data = std::get_if<RelayData>(&*message)) {
    Forward(origin, *data, part);
  } else if (const auto* got = std::get_if<RelayGot>(&*message)) {
    desk_.OnGot(origin.peer, origin.routing_id, got->bytes);
  } else if (const auto* meet = std::get_if<RelayMeet>(&*message)) {
    Introduce(origin, *meet);
  }
}

}  // namespace skerry
