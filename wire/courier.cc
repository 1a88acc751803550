#include "wire/courier.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/rng.h"

namespace skerry {

uint64_t Courier::IncarnationFor(const NodeId& peer) const {
  const auto it = forgotten_.find(peer);
  if (it == forgotten_.end()) return options_.incarnation;
  return Mix64(options_.incarnation ^ Mix64(it->second)) | 1;
}

Frame Courier::MakeFrame(const NodeId& to, const Session& session, uint64_t sequence,
                         const Message* message) const {
  Frame frame;
  frame.header = {options_.run, IncarnationFor(to), session.peer_incarnation, sequence,
                  session.delivered};
  if (message != nullptr) frame.message = *message;
  return frame;
}

void Courier::Send(Instant now, const NodeId& to, Message message, std::vector<Outgoing>& out) {
  Session& session = sessions_[to];
  // A peer this far behind is gone; membership will say so. Its queue must not eat the process
  // meanwhile.
  if (session.outbox.size() >= kOutboxMax) {
    ++refused_;
    return;
  }
  if (session.outbox.empty()) {
    session.repeat_after = options_.repeat_after;
    session.repeat_due = now + session.repeat_after;
  }
  const uint64_t sequence = session.next_sequence++;
  session.outbox.emplace_back(sequence, std::move(message));
  session.owed_acks = 0;
  List(to, session);
  out.push_back({to, MakeFrame(to, session, sequence, &session.outbox.back().second)});
}

void Courier::Acknowledge(Instant now, Session& session, uint64_t acknowledged) {
  bool progress = false;
  while (!session.outbox.empty() && session.outbox.front().first <= acknowledged) {
    session.outbox.pop_front();
    progress = true;
  }
  if (!progress) return;
  session.repeat_after = options_.repeat_after;
  session.repeat_due = now + session.repeat_after;
}

void Courier::Accept(Session& session, uint64_t sequence, Message message, Delivered& delivered) {
  if (sequence <= session.delivered || session.early.contains(sequence)) {
    ++refused_;  // had it: our acknowledgement was lost, or somebody replays
    return;
  }
  session.early.emplace(sequence, std::move(message));
  while (!session.early.empty() && session.early.begin()->first == session.delivered + 1) {
    delivered.messages.push_back(std::move(session.early.begin()->second));
    session.early.erase(session.early.begin());
    ++session.delivered;
  }
}

Courier::Delivered Courier::OnFrame(Instant now, const NodeId& from, Frame frame,
                                    std::vector<Outgoing>& out) {
  Delivered delivered{from, false, {}};
  const FrameHeader& header = frame.header;
  Session& session = sessions_[from];
  if (header.run != options_.run || header.sender_incarnation == 0 ||
      session.old_incarnations.contains(header.sender_incarnation)) {
    ++refused_;
    return delivered;
  }
  if (header.sender_incarnation != session.peer_incarnation) {
    const bool known_before = session.peer_incarnation != 0;
    if (known_before) {
      session.old_incarnations.insert(session.peer_incarnation);
      delivered.restarted = true;
    }
    session.peer_incarnation = header.sender_incarnation;
    session.delivered = 0;
    session.early.clear();
    if (known_before) CarryOver(now, from, session, out);
  }
  // Meant for a process that was here before this one: the peer will learn of this incarnation from
  // our frames.
  if (header.receiver_incarnation != 0 && header.receiver_incarnation != IncarnationFor(from)) {
    ++refused_;
    if (!delivered.restarted) out.push_back({from, MakeFrame(from, session, 0, nullptr)});
    return delivered;
  }

  if (header.receiver_incarnation == IncarnationFor(from)) {
    Acknowledge(now, session, header.acknowledged);
  }
  if (header.sequence == 0 || !frame.message) return delivered;
  if (header.sequence > session.delivered + kEarlyMax) {
    ++refused_;
    return delivered;
  }
  Accept(session, header.sequence, *std::move(frame.message), delivered);
  if (session.owed_acks++ == 0) {
    session.ack_due = now + kAckDelay;
    List(from, session);
  }
  if (session.owed_acks >= kAckEvery) {
    session.owed_acks = 0;
    out.push_back({from, MakeFrame(from, session, 0, nullptr)});
  }
  return delivered;
}

// Some of it may have been sent after the peer's process was replaced, by who did not know.
void Courier::CarryOver(Instant now, const NodeId& to, Session& session,
                        std::vector<Outgoing>& out) {
  std::erase_if(session.outbox, [](const auto& queued) { return !OutlivesSession(queued.second); });
  session.next_sequence = 1;
  for (auto& [sequence, message] : session.outbox) {
    sequence = session.next_sequence++;
    out.push_back({to, MakeFrame(to, session, sequence, &message)});
  }
  session.repeat_after = options_.repeat_after;
  session.repeat_due = now + session.repeat_after;
  List(to, session);
}

void Courier::Repeat(Instant now, const NodeId& to, Session& session, std::vector<Outgoing>& out) {
  // Only the oldest: if it arrives, the acknowledgement shows what else is missing.
  constexpr size_t kRepeatAtOnce = 4;
  for (size_t i = 0; i < std::min(kRepeatAtOnce, session.outbox.size()); ++i) {
    out.push_back({to, MakeFrame(to, session, session.outbox[i].first, &session.outbox[i].second)});
  }
  session.owed_acks = 0;
  session.repeat_after = std::min(session.repeat_after * 2, options_.repeat_after_max);
  session.repeat_due = now + session.repeat_after;
}

std::optional<Instant> Courier::DueOf(const Session& session) {
  std::optional<Instant> due;
  if (!session.outbox.empty()) due = session.repeat_due;
  if (session.owed_acks > 0 && (!due || session.ack_due < *due)) due = session.ack_due;
  return due;
}

void Courier::List(const NodeId& peer, Session& session) {
  const std::optional<Instant> due = DueOf(session);
  if (!due || (session.listed && *session.listed <= *due)) return;
  session.listed = due;
  due_.push_back({*due, peer});
  std::push_heap(due_.begin(), due_.end(), std::greater<>());
}

void Courier::Relist() {
  while (!due_.empty()) {
    const Due first = due_.front();
    const auto it = sessions_.find(first.peer);
    const bool counts = it != sessions_.end() && it->second.listed == first.at;
    if (counts && DueOf(it->second) == first.at) return;
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    due_.pop_back();
    if (!counts) continue;
    it->second.listed.reset();
    List(first.peer, it->second);
  }
}

void Courier::Tick(Instant now, std::vector<Outgoing>& out) {
  for (Relist(); !due_.empty() && due_.front().at <= now; Relist()) {
    const NodeId peer = due_.front().peer;
    Session& session = sessions_.at(peer);
    if (!session.outbox.empty() && session.repeat_due <= now) Repeat(now, peer, session, out);
    if (session.owed_acks > 0 && session.ack_due <= now) {
      session.owed_acks = 0;
      out.push_back({peer, MakeFrame(peer, session, 0, nullptr)});
    }
  }
}

std::optional<Instant> Courier::NextDue() {
  Relist();
  if (due_.empty()) return std::nullopt;
  return due_.front().at;
}

void Courier::Forget(const NodeId& peer) {
  if (sessions_.erase(peer) > 0) ++forgotten_[peer];
}

size_t Courier::Unacknowledged(const NodeId& peer) const {
  const auto it = sessions_.find(peer);
  return it == sessions_.end() ? 0 : it->second.outbox.size();
}

}  // namespace skerry
