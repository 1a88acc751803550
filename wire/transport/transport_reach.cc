// Dialling back: whether a node can be reached where it says that it listens. Whoever answers a
// fresh nonce over a CURVE connection to the node's key is the node.
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/transport/transport.h"

namespace skerry {
namespace {

// Another address may answer too, and be the better one.
constexpr Duration kAfterFirst = Duration::Millis(300);
constexpr int kLingerMs = 0;

}  // namespace

void Transport::NoteSeen(const NodeId& peer, const zmq::message_t& message) {
  const char* address = zmq_msg_gets(message.handle(), "Peer-Address");
  if (address == nullptr) return;
  if (seen_.size() > kStrangersMax + allowed_.size())
    absl::erase_if(seen_, [&](const auto& entry) { return !allowed_.contains(entry.first); });
  std::string& seen = seen_[peer];
  if (seen != address) seen = address;
}

void Transport::TryReach(const NodeId& node, const std::vector<std::string>& listens) {
  to_reach_.emplace_back(node, listens);
  TendReach();
}

void Transport::BeginReach(ReachAttempt& attempt) {
  for (const ReachTry& one : attempt.found.tried) {
    uint64_t nonce = 0;
    randombytes_buf(&nonce, sizeof nonce);
    attempt.nonces.push_back(nonce);
    try {
      zmq::socket_t socket = DialSocket(attempt.found.node, one.endpoint, false);
      socket.set(zmq::sockopt::linger, kLingerMs);
      SendPart(socket, nullptr, EncodeRelay(ReachNonce{nonce, false}));
      attempt.sockets.push_back(std::move(socket));
    } catch (const zmq::error_t&) {
      attempt.sockets.emplace_back();  // no endpoint, or no descriptor left: nobody answers
    }
  }
}

void Transport::TendReach() {
  const Instant now = Now();
  for (auto it = reaching_.begin(); it != reaching_.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    reached_.push_back(std::move(it->second.found));
    it = reaching_.erase(it);
  }
  while (!to_reach_.empty() && reaching_.size() < kReachAtOnce) {
    auto [node, listens] = std::move(to_reach_.front());
    to_reach_.pop_front();
    if (!CurveKeyOf(node).ok()) continue;
    ReachAttempt attempt;
    const auto seen = seen_.find(node);
    attempt.found = {node, seen == seen_.end() ? "" : seen->second, {}};
    for (std::string& place : DialBackAt(listens, attempt.found.seen))
      attempt.found.tried.push_back({std::move(place), false});
    attempt.due = attempt.found.tried.empty() ? now : now + kReachPatience;
    BeginReach(attempt);
    reaching_.insert_or_assign(node, std::move(attempt));
  }
}

void Transport::ReceiveReach() {
  for (auto& [node, attempt] : reaching_) {
    for (size_t i = 0; i < attempt.sockets.size(); ++i) {
      if (!attempt.sockets[i]) continue;
      while (const auto parts = ReceiveParts(&attempt.sockets[i])) {
        if (parts->size() != 1) continue;
        const auto message =
            DecodeRelay(std::span((*parts)[0].data<uint8_t>(), (*parts)[0].size()));
        const auto* answer = message ? std::get_if<ReachNonce>(&*message) : nullptr;
        if (answer == nullptr || !answer->is_answer || answer->nonce != attempt.nonces[i]) continue;
        attempt.found.tried[i].answered = true;
      }
    }
    const auto& tried = attempt.found.tried;
    const auto answered = [](const ReachTry& one) { return one.answered; };
    const Instant now = Now();
    if (std::all_of(tried.begin(), tried.end(), answered)) {
      attempt.due = now;
    } else if (std::any_of(tried.begin(), tried.end(), answered)) {
      attempt.due = std::min(attempt.due, now + kAfterFirst);
    }
  }
}

bool Transport::AnswerStranger(const std::string& routing_id, std::span<const uint8_t> part) {
  const auto message = options_.admit_any ? DecodeRelay(part) : std::nullopt;
  const auto* question = message ? std::get_if<ReachNonce>(&*message) : nullptr;
  const auto answer = question ? path_desk_.AnswerTo(Now(), *question) : std::nullopt;
  if (answer) SendPart(router_, &routing_id, EncodeRelay(*answer));
  return answer.has_value();
}

std::vector<Reachability> Transport::TakeReached() {
  return std::exchange(reached_, {});
}

}  // namespace skerry
