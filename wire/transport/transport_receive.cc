// What comes out of the sockets, and what of it is taken.
#include <algorithm>
#include <iterator>
#include <utility>
#include <zmq_addon.hpp>

#include "common/check.h"
#include "common/status.h"
#include "wire/codec/limits.h"
#include "wire/transport/transport.h"

namespace skerry {
namespace {

std::string UserIdOf(const zmq::message_t& message) {
  const char* user = zmq_msg_gets(message.handle(), "User-Id");
  return user != nullptr ? user : "";
}

// The payload in one piece; null if the parts break a limit.
std::optional<Payload> Join(const std::vector<zmq::message_t>& parts, size_t first) {
  if (parts.size() - first > limits::kPayloadPartsMax) return std::nullopt;
  size_t bytes = 0;
  for (size_t i = first; i < parts.size(); ++i) bytes += parts[i].size();
  if (bytes > limits::kPayloadBytesMax) return std::nullopt;
  if (bytes == 0) return Payload();
  Bytes payload;
  payload.reserve(bytes);
  for (size_t i = first; i < parts.size(); ++i) {
    const auto* data = parts[i].data<uint8_t>();
    payload.insert(payload.end(), data, data + parts[i].size());
  }
  return MakePayload(std::move(payload));
}

}  // namespace

void Transport::Receive(const std::function<void(Received)>& take) {
  // In this order, so that the monitor has told of each connection that ZAP asks about.
  zap_->Take();
  ServeMonitor();
  zap_->Serve(Now());
  ReceiveFrom(nullptr, std::nullopt, take);
  std::vector<std::pair<NodeId, std::optional<StripeId>>> sockets;
  for (const auto& [peer, line] : lines_) sockets.emplace_back(peer, std::nullopt);
  for (const auto& [peer, link] : links_) {
    for (const auto& [stripe, dealer] : link.dialled) sockets.emplace_back(peer, stripe);
  }
  for (const auto& [peer, stripe] : sockets) ReceiveFrom(&peer, stripe, take);
  std::vector<std::pair<NodeId, StripeId>> wires, direct;
  for (const auto& [peer, pair] : pairs_) {
    for (const auto& [stripe, wire] : pair.wires) wires.emplace_back(peer, stripe);
    for (const auto& [stripe, wire] : pair.direct) direct.emplace_back(peer, stripe);
  }
  for (const auto& [peer, stripe] : wires) ReceiveRelayed(peer, stripe, take);
  for (const auto& [peer, stripe] : direct) ReceiveDirect(peer, stripe, take);
  ReceiveReach();
}

// Looked up each time: whoever takes a frame may hang up on its sender.
zmq::socket_t* Transport::SocketTo(const NodeId& peer, std::optional<StripeId> stripe) {
  if (!stripe) {
    const auto line = lines_.find(peer);
    return line == lines_.end() ? nullptr : &line->second.dealer;
  }
  const auto link = links_.find(peer);
  if (link == links_.end()) return nullptr;
  const auto dealer = link->second.dialled.find(*stripe);
  return dealer == link->second.dialled.end() ? nullptr : &dealer->second;
}

void Transport::ReceiveFrom(const NodeId* peer, std::optional<StripeId> stripe,
                            const std::function<void(Received)>& take) {
  for (int i = 0; i < kReceiveAtOnce; ++i) {
    const auto parts = ReceiveParts(peer == nullptr ? &router_ : SocketTo(*peer, stripe));
    if (!parts) return;
    const size_t first = peer == nullptr ? 1 : 0;  // after the routing id
    if (parts->size() == first + 1) {
      const zmq::message_t& part = (*parts)[first];
      const std::span bytes(part.data<uint8_t>(), part.size());
      const bool relays = IsRelayMessage(bytes);
      // The probe of a connection that stands: it says who is there, and no more.
      const bool knocks = bytes.empty() && peer == nullptr;
      if (relays || knocks || IsLinkMessage(bytes)) {
        Origin origin{peer != nullptr ? *peer : NodeId(), peer != nullptr, stripe, ""};
        origin.descriptor = zmq_msg_get(part.handle(), ZMQ_SRCFD);
        if (peer == nullptr) {
          const auto known = peer_of_key_.find(UserIdOf(part));
          if (known == peer_of_key_.end()) {
            if (!knocks && !AnswerStranger((*parts)[0].to_string(), bytes))
              ++counters_.refused_unadmitted;
            continue;
          }
          origin.peer = known->second;
          origin.routing_id = (*parts)[0].to_string();
        }
        if (knocks) {
          NoteSeen(origin.peer, part);
          LearnRoute(origin.peer, origin.routing_id);
          continue;
        }
        HearDirectly(origin);
        relays ? OnRelayPart(origin, bytes) : OnLinkPart(origin, bytes, take);
        continue;
      }
    }
    if (auto received = Accept(*parts, peer)) take(*std::move(received));
  }
}

std::optional<std::vector<zmq::message_t>> Transport::ReceiveParts(zmq::socket_t* socket) {
  if (socket == nullptr) return std::nullopt;
  std::vector<zmq::message_t> parts;
  try {
    if (!zmq::recv_multipart(*socket, std::back_inserter(parts), zmq::recv_flags::dontwait))
      return std::nullopt;
  } catch (const zmq::error_t& e) {
    SKERRY_CHECK(e.num() == EINTR, "a socket of ours failed");
    return std::nullopt;
  }
  if (down_.IsLimited()) {
    size_t bytes = 0;
    for (const zmq::message_t& part : parts) bytes += part.size();
    down_.Spend(Now(), static_cast<double>(bytes));
  }
  return parts;
}

std::optional<Transport::Received> Transport::Accept(const std::vector<zmq::message_t>& parts,
                                                     const NodeId* dialled) {
  const size_t first = dialled == nullptr ? 1 : 0;  // after the routing id
  if (parts.size() <= first) {
    ++counters_.refused_malformed;
    return std::nullopt;
  }
  const zmq::message_t& envelope = parts[first];
  const std::string user = dialled == nullptr ? UserIdOf(envelope) : "";
  const bool admitted = dialled != nullptr || zap_->IsAllowed(user);
  if (!admitted &&
      (parts.size() > first + 1 || envelope.size() > limits::kStrangerEnvelopeBytesMax)) {
    ++counters_.refused_unadmitted;
    return std::nullopt;
  }
  const auto payload = Join(parts, first + 1);
  if (!payload) {
    ++counters_.refused_malformed;
    return std::nullopt;
  }
  FrameExpectation expectation{options_.run, options_.identity.id(), [&](const NodeId& sender) {
                                 return dialled != nullptr ? sender == *dialled
                                                           : KeyHexOf(sender) == user;
                               }};
  auto decoded =
      Decode(std::span(envelope.data<uint8_t>(), envelope.size()), *payload, expectation);
  if (!decoded.ok()) {
    ++(absl::IsPermissionDenied(decoded.status()) ? counters_.refused_sender
                                                  : counters_.refused_malformed);
    return std::nullopt;
  }
  CountFrame(envelope.size(), *payload);
  if (dialled == nullptr) {
    NoteSeen(decoded->sender, envelope);
    LearnRoute(decoded->sender, parts[0].to_string());
  }
  HearDirectly({decoded->sender, dialled != nullptr, std::nullopt, "", false});
  return Received{*std::move(decoded), admitted};
}

void Transport::LearnRoute(const NodeId& peer, const std::string& routing_id) {
  if (routing_ids_.size() > kStrangersMax + allowed_.size())
    absl::erase_if(routing_ids_,
                   [&](const auto& entry) { return !allowed_.contains(entry.first); });
  std::string& known = routing_ids_[peer];
  if (known == routing_id) return;
  // A twin (SendTwin) comes over another connection than that for control.
  const auto link = links_.find(peer);
  if (link != links_.end() && !known.empty() &&
      StripeOf({peer, false, std::nullopt, routing_id}, link->second) != BulkSender::kControlStripe)
    return;
  known = routing_id;
  rerouted_.insert(peer);
  FlushPeer(peer);
}

void Transport::CountFrame(size_t envelope_bytes, const Payload& payload) {
  ++counters_.frames_received;
  counters_.bytes_received += static_cast<int64_t>(envelope_bytes) + SizeOf(payload);
}

std::optional<Transport::Received> Transport::AcceptRelayed(const NodeId& peer,
                                                            std::span<const uint8_t> envelope,
                                                            std::span<const uint8_t> payload) {
  const Payload whole =
      payload.empty() ? Payload() : MakePayload(Bytes(payload.begin(), payload.end()));
  const FrameExpectation expectation{options_.run, options_.identity.id(),
                                     [&](const NodeId& sender) { return sender == peer; }};
  auto decoded = Decode(envelope, whole, expectation);
  if (!decoded.ok()) {
    ++(absl::IsPermissionDenied(decoded.status()) ? counters_.refused_sender
                                                  : counters_.refused_malformed);
    return std::nullopt;
  }
  CountFrame(envelope.size(), whole);
  return Received{*std::move(decoded), true};
}

}  // namespace skerry
