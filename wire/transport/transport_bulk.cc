// Bulk connections: who opens them, what goes over them, what comes.
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "wire/transport/connection_reading.h"
#include "wire/transport/transport.h"

namespace skerry {
namespace {

constexpr Duration kAskAgain = Duration::Seconds(2);
// Both ends together stay within what a relay lets a pair have under way (RelayDesk::Budget).
constexpr int64_t kRelayedUnderWayMax = int64_t{3} << 20;
constexpr int64_t kTwinMost = 1024;
constexpr Duration kReadAgain = Duration::Millis(2);
constexpr Duration kRedialAgain = Duration::Seconds(8);

}  // namespace

uint64_t Transport::NextSession() {
  if (session_ == 0) session_ = uint64_t{randombytes_random()} << kSessionNumberBits;
  return ++session_;
}

Transport::Link& Transport::LinkTo(const NodeId& peer) {
  const auto it = links_.find(peer);
  return it != links_.end() ? it->second : links_.try_emplace(peer, NextSession()).first->second;
}

bool Transport::Withdraw(const NodeId& peer, TrafficClass traffic, uint64_t sequence) {
  const auto it = links_.find(peer);
  return it != links_.end() && it->second.sender.Withdraw(traffic, sequence);
}

void Transport::DropBulk(const NodeId& peer) {
  const auto it = links_.find(peer);
  if (it == links_.end()) return;
  BulkSender fresh(NextSession());
  it->second.sender = std::move(fresh);
  // The new process answers the attachments anew.
  if (const auto pair = pairs_.find(peer); pair != pairs_.end()) {
    OpenReadyStripes(pair->second, it->second);
  }
  it->second.dialled.clear();
  it->second.attached.clear();
}

// ---- sending -----------------------------------------------------------------------------------

Transport::SendResult Transport::SendPart(zmq::socket_t& socket, const std::string* routing_id,
                                          std::span<const uint8_t> bytes) {
  try {
    if (routing_id != nullptr) {
      const auto flags = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
      if (!socket.send(zmq::buffer(*routing_id), flags)) return SendResult::kFull;
    }
    if (!socket.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::dontwait))
      return SendResult::kFull;
  } catch (const zmq::error_t& e) {
    return e.num() == EHOSTUNREACH ? SendResult::kNoWay : SendResult::kFull;
  }
  CountSent(static_cast<int64_t>(bytes.size()));
  return SendResult::kSent;
}

Transport::SendResult Transport::SendControl(const NodeId& peer, std::span<const uint8_t> bytes) {
  if (UsesRelay(peer)) return SendSealed(peer, kControlWire, bytes);
  if (IsByLine(peer)) return SendPart(lines_.at(peer).dealer, nullptr, bytes);
  const auto route = routing_ids_.find(peer);
  if (route == routing_ids_.end()) return SendResult::kNoWay;
  const SendResult result = SendPart(router_, &route->second, bytes);
  if (result == SendResult::kNoWay) routing_ids_.erase(route);
  return result;
}

// What is small and urgent goes over the connection for signals, too: whichever comes first counts,
// and the courier drops the other. A lost packet would hold it up for a round trip and more.
void Transport::SendTwin(const OutgoingFrame& frame) {
  if (frame.traffic != TrafficClass::kControl || frame.bytes() > kTwinMost) return;
  const auto link = links_.find(frame.to);
  if (link == links_.end() || UsesRelay(frame.to)) return;
  if (link->second.sender.HasStripe(kSignalStripe) && View(frame.payload).empty())
    SendOverStripe(frame.to, link->second, kSignalStripe, frame.envelope);
}

Transport::SendResult Transport::SendOverStripe(const NodeId& peer, Link& link, StripeId stripe,
                                                std::span<const uint8_t> bytes) {
  if (stripe == BulkSender::kControlStripe) return SendControl(peer, bytes);
  if (UsesRelay(peer)) return SendSealed(peer, stripe, bytes);
  if (const auto ours = link.dialled.find(stripe); ours != link.dialled.end())
    return SendPart(ours->second, nullptr, bytes);
  const auto theirs = link.attached.find(stripe);
  if (theirs == link.attached.end()) return SendResult::kNoWay;
  const SendResult result = SendPart(router_, &theirs->second, bytes);
  if (result == SendResult::kNoWay) link.attached.erase(theirs);
  return result;
}

void Transport::OpenStripe(const NodeId& peer, Link& link, StripeId stripe) {
  try {
    zmq::socket_t dealer = DialSocket(peer, lines_.at(peer).endpoint, false);
    SendPart(dealer, nullptr, EncodeLink(AttachMessage{stripe, false}));
    link.dialled.insert_or_assign(stripe, std::move(dealer));
  } catch (const zmq::error_t&) {
    // Out of descriptors: there are fewer connections then.
  }
}

void Transport::PrepareStripes(const NodeId& peer, Link& link) {
  if (UsesRelay(peer)) return PrepareWires(peer, link);
  const Instant now = Now();
  const bool dialled = IsByLine(peer);
  if (dialled || routing_ids_.contains(peer)) {
    if (!link.sender.HasStripe(BulkSender::kControlStripe))
      link.sender.OpenStripe(now, BulkSender::kControlStripe);
  }
  const uint16_t wanted = link.sender.WantedStripes(now);
  if (dialled) {
    const uint16_t open = std::min(std::max(wanted, link.wanted), kSignalStripe);
    for (StripeId stripe = 0; stripe < open; ++stripe) {
      if (!link.dialled.contains(stripe)) OpenStripe(peer, link, stripe);
    }
    if (open > 0 && !link.dialled.contains(kSignalStripe)) OpenStripe(peer, link, kSignalStripe);
  } else if (wanted > 0 && link.attached.size() < wanted + size_t{1} &&
             (!link.asked || now - *link.asked > kAskAgain)) {
    link.asked = now;
    SendControl(peer, EncodeLink(WantMessage{wanted}));
  }
}

// A descriptor may be another connection's by now: that says something wrong for a moment, and not
// more than is under way.
void Transport::ReadConnections(Link& link) {
  const Instant now = Now();
  if (now - link.connections_read < kReadAgain) return;
  link.connections_read = now;
  for (const auto& [stripe, descriptor] : link.descriptors)
    link.sender.OnReading(now, stripe, ReadConnection(descriptor));
}

void Transport::PrepareToSend(const NodeId& peer, Link& link) {
  PrepareStripes(peer, link);
  // Before the chunks: the first of all probes shall meet no queue of ours.
  if (const auto probe = link.sender.ProbeDue(Now())) {
    const StripeId over =
        link.sender.HasStripe(kSignalStripe) ? kSignalStripe : BulkSender::kControlStripe;
    SendOverStripe(peer, link, over, EncodeLink(*probe));
  }
  ReadConnections(link);
  link.sender.BeginTurn(Now(), sender_line_.CommonQueue(link.sender.session()));
}

int64_t Transport::SendChunk(const NodeId& peer, Link& link, SenderLine::What what) {
  const auto pair = pairs_.find(peer);
  const bool relayed = UsesRelay(peer) && !(pair != pairs_.end() && pair->second.punch.stands());
  while (!relayed || link.sender.under_way_bytes() < kRelayedUnderWayMax) {
    if (!up_.MayGo(Now())) break;
    const auto next = link.sender.Next(Now(), what);
    if (!next) break;
    const SendResult result = SendOverStripe(peer, link, next->stripe, next->bytes);
    if (result == SendResult::kSent) return static_cast<int64_t>(next->bytes.size());
    link.sender.TakeBack(next->serial);
    if (result == SendResult::kNoWay) {
      link.sender.CloseStripe(next->stripe);
      continue;
    }
    bulk_is_full_ = true;
    break;
  }
  return 0;
}

void Transport::Redial(const NodeId& peer, Link& link) {
  const Instant now = Now();
  if (link.redialled && now - *link.redialled < kRedialAgain) return;
  link.redialled = now;
  Line& line = lines_.at(peer);
  try {
    line.dealer = DialSocket(peer, line.endpoint, true);
  } catch (const zmq::error_t&) {
    // libzmq goes on trying with the old one.
  }
}

// What says nothing any more is replaced by a fresh connection, by whoever can dial.
void Transport::TendSilent(const NodeId& peer, Link& link) {
  const bool relayed = UsesRelay(peer);
  RelayedPair* const pair = relayed ? PairWith(peer) : nullptr;
  for (const StripeId stripe : link.sender.Tick(Now())) {
    if (relayed) {
      link.sender.CloseStripe(stripe);
      if (pair == nullptr) continue;
      if (IsDirect(*pair, stripe) && pair->punch.OnStalled(Now())) CloseDirect(peer, *pair);
      pair->wires.erase(stripe);
      continue;
    }
    if (stripe == BulkSender::kControlStripe) {
      if (lines_.contains(peer)) Redial(peer, link);
      continue;
    }
    link.sender.CloseStripe(stripe);
    if (link.dialled.erase(stripe) == 0) {
      link.attached.erase(stripe);
      link.asked.reset();
    }
  }
  if (!link.sender.StalledSince(Now())) return;
  if (pair != nullptr) {
    if (pair->punch.OnStalled(Now())) {
      CloseDirect(peer, *pair);
    } else if (pair->route.OnStalled(Now())) {
      SyncWires(peer, *pair);
    }
  } else if (lines_.contains(peer)) {
    Redial(peer, link);
  }
}

// Beyond the limit of what may come in they wait, and with them whoever sends: what is
// acknowledged is what may be sent next.
void Transport::SendAcks(const NodeId& peer, Link& link) {
  if (!down_.MayGo(Now())) return;
  while (const auto acks = link.receiver.TakeAcks(Now())) {
    const Bytes bytes = EncodeLink(acks->message);
    const auto theirs = link.attached.find(acks->via);
    const SendResult result = theirs != link.attached.end()
                                  ? SendPart(router_, &theirs->second, bytes)
                                  : SendOverStripe(peer, link, acks->via, bytes);
    if (result == SendResult::kNoWay) SendControl(peer, bytes);
  }
}

bool Transport::FlushBulk() {
  bulk_is_full_ = false;
  std::vector<std::pair<NodeId, Link*>> links;
  std::vector<SenderLine::Pair> pairs;
  for (const NodeId& peer : std::vector<NodeId>(active_.begin(), active_.end())) {
    Link& link = LinkTo(peer);
    SendAcks(peer, link);
    TendSilent(peer, link);
    PrepareToSend(peer, link);
    if (!link.sender.IsIdle()) {
      links.emplace_back(peer, &link);
      pairs.push_back(link.sender.InSenderLine(Now()));
    } else if (!link.receiver.OwesAcks()) {
      active_.erase(peer);
    }
  }
  sender_line_.Share(Now(), pairs, [&](size_t i, SenderLine::What what) {
    return SendChunk(links[i].first, *links[i].second, what);
  });
  return bulk_is_full_;
}

std::optional<Instant> Transport::NextDue() const {
  std::optional<Instant> due;
  if (!pairs_.empty()) due = relays_tended_ + kTendEvery;
  for (const auto& [node, attempt] : reaching_) {
    if (!due || attempt.due < *due) due = attempt.due;
  }
  for (const TokenBucket* limit : {&up_, &down_}) {
    const auto free = limit->FreeAt();
    if (free && !active_.empty() && (!due || *free < *due)) due = free;
  }
  for (const NodeId& peer : active_) {
    const auto next = links_.at(peer).sender.NextDue();
    if (next && (!due || *next < *due)) due = next;
  }
  return due;
}

std::map<NodeId, Transport::Stall> Transport::Stalled() const {
  std::map<NodeId, Stall> stalled;
  for (const NodeId& peer : active_) {
    const BulkSender& sender = links_.at(peer).sender;
    if (const auto since = sender.StalledSince(Now()))
      stalled[peer] = {*since, sender.AnswersProbes(Now())};
  }
  return stalled;
}

std::optional<LinkReading> Transport::Shown(const NodeId& peer) const {
  const auto it = links_.find(peer);
  if (it == links_.end()) return std::nullopt;
  const auto round_trip = it->second.sender.window().round_trip();
  const double rate = it->second.sender.carried_bytes_per_s();
  if (!round_trip) return std::nullopt;
  return LinkReading{peer, round_trip->seconds(), rate};
}

// ---- receiving ---------------------------------------------------------------------------------

void Transport::Answer(const Origin& origin, std::span<const uint8_t> bytes) {
  if (origin.relayed) {
    SendSealed(origin.peer, origin.stripe.value_or(kControlWire), bytes);
  } else if (!origin.dialled) {
    SendPart(router_, &origin.routing_id, bytes);
  } else if (zmq::socket_t* socket = SocketTo(origin.peer, origin.stripe)) {
    SendPart(*socket, nullptr, bytes);
  }
}

void Transport::OnAttach(const Origin& origin, const AttachMessage& message) {
  Link& link = LinkTo(origin.peer);
  if (message.stripe == kSignalStripe) AvoidPauses(origin.descriptor);
  link.connections_read = Instant();  // before anything goes over it, which may be cold
  if (origin.dialled) {
    if (!message.is_answer || origin.stripe != message.stripe) return;
    link.sender.OpenStripe(Now(), message.stripe);
    link.descriptors[message.stripe] = origin.descriptor;
  } else if (!message.is_answer) {
    link.attached[message.stripe] = origin.routing_id;
    link.descriptors[message.stripe] = origin.descriptor;
    Answer(origin, EncodeLink(AttachMessage{message.stripe, true}));
    if (!IsByLine(origin.peer)) link.sender.OpenStripe(Now(), message.stripe);
  }
}

StripeId Transport::StripeOf(const Origin& origin, const Link& link) {
  if (origin.dialled) return origin.stripe.value_or(BulkSender::kControlStripe);
  for (const auto& [stripe, routing_id] : link.attached) {
    if (routing_id == origin.routing_id) return stripe;
  }
  return BulkSender::kControlStripe;
}

std::optional<Transport::Received> Transport::OnChunk(const Origin& origin,
                                                      const DecodedChunk& chunk) {
  Link& link = LinkTo(origin.peer);
  active_.insert(origin.peer);  // to acknowledge it
  std::optional<BulkReceiver::Arrived> arrived;
  if (link.receiver.Take(chunk, StripeOf(origin, link), arrived) == BulkReceiver::Verdict::kRefused)
    ++counters_.refused_malformed;
  if (!arrived) return std::nullopt;
  const FrameExpectation expectation{options_.run, options_.identity.id(),
                                     [&](const NodeId& sender) { return sender == origin.peer; },
                                     DigestPlace::kTransfer};
  counters_.bytes_received +=
      static_cast<int64_t>(arrived->envelope.size()) + SizeOf(arrived->payload);
  auto decoded = Decode(arrived->envelope, arrived->payload, expectation);
  if (!decoded.ok()) {
    ++(absl::IsPermissionDenied(decoded.status()) ? counters_.refused_sender
                                                  : counters_.refused_malformed);
    return std::nullopt;
  }
  ++counters_.frames_received;
  return Received{*std::move(decoded), true};
}

void Transport::OnLinkPart(const Origin& origin, std::span<const uint8_t> part,
                           const std::function<void(Received)>& take) {
  const auto message = DecodeLink(part);
  if (!message) {
    ++counters_.refused_malformed;
  } else if (const auto* chunk = std::get_if<DecodedChunk>(&*message)) {
    if (auto received = OnChunk(origin, *chunk)) take(*std::move(received));
  } else if (const auto* acks = std::get_if<AcksMessage>(&*message)) {
    const auto link = links_.find(origin.peer);
    if (link == links_.end()) return;
    link->second.sender.OnAcks(Now(), *acks);
    link->second.descriptors[StripeOf(origin, link->second)] = origin.descriptor;
  } else if (const auto* probe = std::get_if<ProbeMessage>(&*message)) {
    if (!probe->is_echo)
      return Answer(origin, EncodeLink(EchoOf(*probe, (Now() - Instant()).nanos())));
    const auto link = links_.find(origin.peer);
    if (link == links_.end()) return;
    BulkSender& sender = link->second.sender;
    if (const auto reading = sender.OnEcho(Now(), *probe))
      sender_line_.OnProbe(Now(), sender.session(), *reading);
  } else if (const auto* attach = std::get_if<AttachMessage>(&*message)) {
    if (!origin.relayed) OnAttach(origin, *attach);
  } else if (const auto* want = std::get_if<WantMessage>(&*message)) {
    if (!origin.dialled || origin.stripe || origin.relayed) return;
    Link& link = LinkTo(origin.peer);
    link.wanted = std::min(want->stripes, kStripesMax);
    PrepareStripes(origin.peer, link);
    // It may have forgotten those that it had.
    for (auto& [stripe, dealer] : link.dialled)
      SendPart(dealer, nullptr, EncodeLink(AttachMessage{stripe, false}));
  }
}

}  // namespace skerry
