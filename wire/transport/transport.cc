#include "wire/transport/transport.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <zmq_addon.hpp>

#include "common/check.h"
#include "common/status.h"
#include "wire/codec/limits.h"
#include "wire/coordinator_route.h"
#include "wire/open_files.h"
#include "wire/transport/peer_address.h"

namespace skerry {
namespace {

constexpr int kIoThreads = 2;  // so that encrypting bulk does not hold up control
constexpr int kSocketsMax = 32'768;
constexpr int kHighWaterFrames = 64;
constexpr int kLingerMs = 1000;
constexpr int kReconnectMs = 100;  // doubling to the maximum, with libzmq's own jitter
constexpr int kReconnectMsMax = 5000;
constexpr int kHandshakeMs = 10'000;
// The system would ask again after 1, 3, 7, 15, 31 seconds: a line that is back is found late.
constexpr int kConnectMs = 5000;
constexpr int kBacklog = 512;  // connections that the system has taken and libzmq has not
// A connection whose other end is gone is given up by TCP itself. ZeroMQ's own heartbeats are not
// used: libzmq 4.3.4 aborts the process when one falls due on a connection that ended while its
// input was held back (stream_engine_base.cpp, out_event), which is what happens to a process that
// was stopped for a while.
constexpr int kKeepaliveIdleS = 5;
constexpr int kKeepaliveEveryS = 2;
constexpr int kKeepaliveProbes = 3;
constexpr int kUnacknowledgedMsMax = 10'000;
constexpr char kMonitorEndpoint[] = "inproc://router-monitor";

// A part that shares the payload's bytes and lets go of them when ZeroMQ is done.
// ZMQ_ZERO_COPY_RECV, which zmq.h names among its drafts only.
constexpr int kZeroCopyReceive = 10;

zmq::message_t SharedPart(const Payload& payload, size_t offset, size_t size) {
  SKERRY_CHECK(payload.IsWhole(), "only a simulator may send a hollow payload");
  auto* owner = new Payload(payload);
  return zmq::message_t(
      const_cast<uint8_t*>(payload->data()) + offset, size,
      [](void*, void* hint) { delete static_cast<Payload*>(hint); }, owner);
}

zmq::const_buffer KeyBuffer(const CurveKey& key) {
  return zmq::buffer(key.data(), key.size());
}

}  // namespace

Transport::Transport(Options options)
    : options_(std::move(options)), context_(kIoThreads), connections_(OpenFileLimit() / 2) {
  context_.set(zmq::ctxopt::max_sockets, kSocketsMax);
  // Otherwise a message of fifty bytes that waits to be taken keeps the ten kilobytes that it was
  // read into: of a crowd that joins at once, gigabytes. An older library refuses, and keeps them.
  static_cast<void>(zmq_ctx_set(context_.handle(), kZeroCopyReceive, 0));
}

Transport::~Transport() {
  if (router_) zmq_socket_monitor(router_.handle(), nullptr, 0);
  monitor_.close();
}

absl::StatusOr<std::unique_ptr<Transport>> Transport::Open(Options options) {
  std::unique_ptr<Transport> transport(new Transport(std::move(options)));
  SKERRY_RETURN_IF_ERROR(transport->Bind());
  return transport;
}

absl::Status Transport::Bind() {
  try {
    zap_.emplace(context_, options_.admit_any);
    router_ = zmq::socket_t(context_, zmq::socket_type::router);
    SetCommonOptions(router_);
    router_.set(zmq::sockopt::curve_server, true);
    router_.set(zmq::sockopt::curve_secretkey, KeyBuffer(options_.identity.curve_secret()));
    router_.set(zmq::sockopt::router_mandatory, true);
    router_.set(zmq::sockopt::backlog, kBacklog);
    router_.set(zmq::sockopt::zap_domain, "skerry");
    zmq_socket_monitor(router_.handle(), kMonitorEndpoint,
                       ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
    monitor_ = zmq::socket_t(context_, zmq::socket_type::pair);
    monitor_.set(zmq::sockopt::linger, 0);
    monitor_.connect(kMonitorEndpoint);
    for (const std::string& endpoint : SplitEndpoints(options_.bind_endpoint)) {
      SetFamily(router_, endpoint);
      router_.bind(endpoint);
      endpoints_.push_back(router_.get(zmq::sockopt::last_endpoint));
    }
    if (endpoints_.empty()) return InvalidArgument("no address to listen at");
  } catch (const zmq::error_t& e) {
    if (e.num() == EINVAL || e.num() == EPROTONOSUPPORT || e.num() == ENODEV) {
      return InvalidArgument("cannot listen at '%s': %s; an endpoint is tcp://address:port",
                             options_.bind_endpoint, e.what());
    }
    const char* remedy =
        e.num() == EADDRINUSE ? "; it is taken by another program; choose another port" : "";
    return Unavailable("cannot listen at '%s': %s%s", options_.bind_endpoint, e.what(), remedy);
  }
  return absl::OkStatus();
}

void Transport::SetCommonOptions(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, kLingerMs);
  socket.set(zmq::sockopt::sndhwm, kHighWaterFrames);
  socket.set(zmq::sockopt::rcvhwm, kHighWaterFrames);
  socket.set(zmq::sockopt::maxmsgsize, limits::kPartBytesMax);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::connect_timeout, kConnectMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, kKeepaliveIdleS);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, kKeepaliveEveryS);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, kKeepaliveProbes);
  socket.set(zmq::sockopt::tcp_maxrt, kUnacknowledgedMsMax);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMsMax);
}

// IPv6 only where it is meant: with the option set, IPv4 addresses would come out mapped.
void Transport::SetFamily(zmq::socket_t& socket, const std::string& endpoint) {
  const bool v6 = endpoint.find('[') != std::string::npos || endpoint.rfind("tcp://*", 0) == 0;
  socket.set(zmq::sockopt::ipv6, v6);
}

absl::Status Transport::Allow(const NodeId& peer) {
  SKERRY_ASSIGN_OR_RETURN(const CurveKey key, CurveKeyOf(peer));
  zap_->Allow(key);
  allowed_.insert(peer);
  peer_of_key_[CurveKeyHex(key)] = peer;
  return absl::OkStatus();
}

zmq::socket_t Transport::ClientSocket(const NodeId& peer) {
  zmq::socket_t dealer(context_, zmq::socket_type::dealer);
  SetCommonOptions(dealer);
  dealer.set(zmq::sockopt::curve_serverkey, KeyBuffer(*CurveKeyOf(peer)));
  dealer.set(zmq::sockopt::curve_publickey, KeyBuffer(options_.identity.curve_public()));
  dealer.set(zmq::sockopt::curve_secretkey, KeyBuffer(options_.identity.curve_secret()));
  return dealer;
}

zmq::socket_t Transport::DialSocket(const NodeId& peer, const std::string& endpoint, bool knocks) {
  zmq::socket_t dealer = ClientSocket(peer);
  // An empty message as soon as it stands: so the other side knows its way here. Each time, as
  // what is queued while no connection stands would else keep the queue, and no new one knocks.
  dealer.set(zmq::sockopt::probe_router, knocks);
  dealer.set(zmq::sockopt::immediate, knocks);
  SetFamily(dealer, endpoint);
  dealer.connect(endpoint);
  return dealer;
}

absl::Status Transport::Await(const NodeId& peer) {
  SKERRY_RETURN_IF_ERROR(Allow(peer));
  through_relay_.erase(peer);
  EndRelaying(peer);
  if (lines_.erase(peer) > 0) CloseStripes(peer);
  return absl::OkStatus();
}

absl::Status Transport::Dial(const NodeId& peer, const std::string& endpoint) {
  SKERRY_RETURN_IF_ERROR(Allow(peer));
  through_relay_.erase(peer);
  const auto it = lines_.find(peer);
  if (it != lines_.end() && it->second.endpoint == endpoint) return absl::OkStatus();
  EndRelaying(peer);
  try {
    lines_.insert_or_assign(peer, Line{endpoint, DialSocket(peer, endpoint, true), Now()});
  } catch (const zmq::error_t& e) {
    return InvalidArgument("cannot dial %s at '%s': %s", peer.Short(), endpoint, e.what());
  }
  CloseStripes(peer);
  FlushPeer(peer);
  return absl::OkStatus();
}

// Bulk connections lead to an old endpoint, or are the peer's own.
void Transport::CloseStripes(const NodeId& peer) {
  const auto link = links_.find(peer);
  if (link == links_.end()) return;
  for (StripeId stripe = 0; stripe < kStripesMax; ++stripe) link->second.sender.CloseStripe(stripe);
  link->second.dialled.clear();
}

void Transport::HangUp(const NodeId& peer) {
  if (const auto key = CurveKeyOf(peer); key.ok()) {
    zap_->Disallow(*key);
    peer_of_key_.erase(CurveKeyHex(*key));
  }
  allowed_.erase(peer);
  through_relay_.erase(peer);
  pairs_.erase(peer);
  seen_.erase(peer);
  std::vector<RelayDesk::Notice> notices;
  desk_.Forget(peer, notices);
  SayNotices(notices);
  links_.erase(peer);
  active_.erase(peer);
  lines_.erase(peer);
  waiting_.erase(peer);
  // Its connection may stand, and knocks only when it is made: who is here again, as the same
  // process, is reached by it. Where it does not, sending says so.
}

// A line that nothing has come over may lead nowhere; what the peer itself dialled is better.
bool Transport::IsByLine(const NodeId& peer) const {
  const auto line = lines_.find(peer);
  return line != lines_.end() && (line->second.heard || !routing_ids_.contains(peer));
}

Transport::SendResult Transport::TrySend(OutgoingFrame& frame) {
  if (UsesRelay(frame.to)) return SendSealedFrame(frame);
  const bool by_line = IsByLine(frame.to);
  const auto line = lines_.find(frame.to);
  const auto route = routing_ids_.find(frame.to);
  if (!by_line && route == routing_ids_.end()) return SendResult::kNoWay;
  zmq::socket_t& socket = by_line ? line->second.dealer : router_;
  const size_t payload_bytes = View(frame.payload).size();
  try {
    if (!by_line) {
      const auto flags = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
      if (!socket.send(zmq::buffer(route->second), flags)) return SendResult::kFull;
    }
    auto more = payload_bytes > 0 ? zmq::send_flags::sndmore : zmq::send_flags::none;
    // Once the first part is taken, libzmq takes the rest of the message too.
    if (!socket.send(zmq::buffer(frame.envelope), more | zmq::send_flags::dontwait))
      return SendResult::kFull;
    for (size_t at = 0; at < payload_bytes; at += limits::kPayloadPartBytes) {
      const size_t size = std::min(limits::kPayloadPartBytes, payload_bytes - at);
      more = at + size < payload_bytes ? zmq::send_flags::sndmore : zmq::send_flags::none;
      SKERRY_CHECK(socket.send(SharedPart(frame.payload, at, size), more).has_value());
    }
  } catch (const zmq::error_t& e) {
    // The connection that a routing id named is gone; its peer will dial again.
    if (e.num() != EHOSTUNREACH) return SendResult::kFull;
    routing_ids_.erase(frame.to);
    return SendResult::kNoWay;
  }
  CountSent(frame.bytes());
  ++counters_.frames_sent;
  return SendResult::kSent;
}

void Transport::CountSent(int64_t bytes) {
  counters_.bytes_sent += bytes;
  if (up_.IsLimited()) up_.Spend(Now(), static_cast<double>(bytes));
}

void Transport::SetLimits(double up_bytes_per_s, double down_bytes_per_s) {
  const Instant now = Now();
  if (up_.rate() != up_bytes_per_s) up_.SetRate(now, up_bytes_per_s);
  if (down_.rate() != down_bytes_per_s) down_.SetRate(now, down_bytes_per_s);
}

void Transport::Send(OutgoingFrame frame) {
  if (frame.in_chunks) {
    active_.insert(frame.to);
    ++counters_.frames_sent;
    LinkTo(frame.to).sender.Enqueue(Now(), std::move(frame));
    return;  // it leaves with the next Flush, when all that could go first is known
  }
  const bool is_first = !waiting_.contains(frame.to);
  if (is_first && TrySend(frame) == SendResult::kSent) return SendTwin(frame);
  auto& queue = waiting_[frame.to];
  if (queue.size() >= kWaitingMax) return;  // the courier will say it again
  const auto place = std::upper_bound(
      queue.begin(), queue.end(), frame.traffic,
      [](TrafficClass traffic, const OutgoingFrame& other) { return traffic < other.traffic; });
  queue.insert(place, std::move(frame));
}

void Transport::FlushPeer(const NodeId& peer) {
  const auto it = waiting_.find(peer);
  if (it == waiting_.end()) return;
  while (!it->second.empty() && TrySend(it->second.front()) == SendResult::kSent)
    it->second.pop_front();
  if (it->second.empty()) waiting_.erase(it);
}

bool Transport::Flush() {
  TendReach();
  TendRelays();
  const bool bulk_is_full = FlushBulk();
  std::vector<NodeId> peers;
  for (const auto& [peer, queue] : waiting_) peers.push_back(peer);
  for (const NodeId& peer : peers) FlushPeer(peer);
  // A DEALER with room again is reported by poll; one full pipe of the ROUTER is not.
  return bulk_is_full || std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
           if (UsesRelay(entry.first)) {
             const auto pair = pairs_.find(entry.first);
             return pair != pairs_.end() && pair->second.route.state() == RelayRoute::State::kReady;
           }
           return !IsByLine(entry.first) && routing_ids_.contains(entry.first);
         });
}

void Transport::AppendPollItems(std::vector<zmq::pollitem_t>& items) {
  items.push_back({router_.handle(), 0, ZMQ_POLLIN, 0});
  items.push_back({zap_->socket().handle(), 0, ZMQ_POLLIN, 0});
  items.push_back({monitor_.handle(), 0, ZMQ_POLLIN, 0});
  for (auto& [peer, line] : lines_) {
    const int out = waiting_.contains(peer) ? ZMQ_POLLOUT : 0;
    items.push_back({line.dealer.handle(), 0, static_cast<short>(ZMQ_POLLIN | out), 0});
  }
  for (auto& [peer, link] : links_) {
    for (auto& [stripe, dealer] : link.dialled)
      items.push_back({dealer.handle(), 0, ZMQ_POLLIN, 0});
  }
  for (auto& [peer, pair] : pairs_) {
    for (auto& [stripe, wire] : pair.wires)
      items.push_back({wire.socket.handle(), 0, ZMQ_POLLIN, 0});
    for (auto& [stripe, wire] : pair.direct)
      items.push_back({wire.socket.handle(), 0, ZMQ_POLLIN, 0});
  }
  for (auto& [node, attempt] : reaching_) {
    for (zmq::socket_t& socket : attempt.sockets)
      items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
  }
}

// The descriptor is libzmq's and may be another connection's by now: what is ended in its place is
// of the address that has spent its budget, too.
void Transport::OnAccepted(int descriptor) {
  ++accepted_;
  const std::string address = PeerBlock(descriptor);
  if (address.empty()) return;
  if (!connections_.Accept(Now(), descriptor, address)) EndConnection(descriptor);
}

void Transport::ServeMonitor() {
  std::vector<zmq::message_t> event;
  while (zmq::recv_multipart(monitor_, std::back_inserter(event), zmq::recv_flags::dontwait)) {
    uint16_t kind = 0;
    if (event[0].size() >= sizeof kind) std::memcpy(&kind, event[0].data(), sizeof kind);
    int32_t descriptor = -1;  // of the connection; in the events that have one
    if (event[0].size() >= sizeof kind + sizeof descriptor)
      std::memcpy(&descriptor, event[0].data<char>() + sizeof kind, sizeof descriptor);
    if (kind == ZMQ_EVENT_ACCEPTED) OnAccepted(descriptor);
    if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      ++shaken_;
      zap_->OnShaken(Now(), connections_.End(descriptor));
    }
    if (kind == ZMQ_EVENT_DISCONNECTED) {
      ++disconnected_;
      connections_.End(descriptor);
    }
    event.clear();
  }
}

const std::string& Transport::KeyHexOf(const NodeId& peer) {
  const auto it = key_hex_.find(peer);
  if (it != key_hex_.end()) return it->second;
  if (key_hex_.size() > kStrangersMax + allowed_.size()) key_hex_.clear();
  const auto key = CurveKeyOf(peer);
  return key_hex_[peer] = key.ok() ? CurveKeyHex(*key) : "no key";
}

size_t Transport::Waiting(const NodeId& peer, TrafficClass traffic) const {
  size_t waiting = 0;
  if (const auto it = waiting_.find(peer); it != waiting_.end()) {
    waiting += static_cast<size_t>(
        std::count_if(it->second.begin(), it->second.end(),
                      [&](const OutgoingFrame& frame) { return frame.traffic == traffic; }));
  }
  if (const auto link = links_.find(peer); link != links_.end())
    waiting += link->second.sender.Unfinished(traffic);
  return waiting;
}

bool Transport::HasUnsent() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return lines_.contains(entry.first) || routing_ids_.contains(entry.first);
  });
}

TransportCounters Transport::counters() const {
  TransportCounters counters = counters_;
  counters.refused_handshakes = zap_->refused();
  counters.relayed_bytes = desk_.forwarded_bytes();
  counters.relays_refused = desk_.refused();
  // Of a connection libzmq tells no more than these three events, without a name. Those accepted
  // and not shaken may still be in the middle of it; what is broken has been disconnected.
  counters.broken_connections = std::min(accepted_ - shaken_, disconnected_);
  return counters;
}

}  // namespace skerry
