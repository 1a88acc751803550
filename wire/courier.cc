#include "wire/courier.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/rng.h"

namespace skerry {

// ---- one peer ----------------------------------------------------------------------------------

uint64_t CourierSession::IncarnationAfter(uint64_t incarnation, uint64_t times_forgotten) {
  return times_forgotten == 0 ? incarnation : Mix64(incarnation ^ Mix64(times_forgotten)) | 1;
}

CourierSession::Irregular& CourierSession::irregular() {
  if (!irregular_) irregular_ = std::make_unique<Irregular>();
  return *irregular_;
}

Frame CourierSession::MakeFrame(uint64_t sequence, SharedMessage message) const {
  return {{options_->run, incarnation_, peer_incarnation_, sequence, delivered_},
          std::move(message)};
}

void CourierSession::Send(Instant now, SharedMessage message, std::vector<Frame>& out) {
  // A peer this far behind is gone; membership will say so. Its queue must not eat the process
  // meanwhile.
  if (unacknowledged() >= kOutboxMax) {
    ++refused_;
    return;
  }
  if (unacknowledged() == 0) {
    repeat_after_ = options_->repeat_after;
    repeat_due_ = now + repeat_after_;
  }
  outbox_.push_back(message);
  owed_acks_ = 0;
  out.push_back(MakeFrame(next_sequence_++, std::move(message)));
}

void CourierSession::Acknowledge(Instant now, uint64_t acknowledged) {
  const uint64_t first = FirstUnacknowledged();
  if (unacknowledged() == 0 || acknowledged < first) return;
  const size_t done = std::min<size_t>(acknowledged - first + 1, unacknowledged());
  for (size_t i = 0; i < done; ++i) outbox_[acknowledged_++].reset();
  // Seldom, so that it costs little per message.
  if (2 * acknowledged_ >= outbox_.size()) {
    outbox_.erase(outbox_.begin(), outbox_.begin() + acknowledged_);
    acknowledged_ = 0;
  }
  repeat_after_ = options_->repeat_after;
  repeat_due_ = now + repeat_after_;
}

void CourierSession::Accept(uint64_t sequence, SharedMessage message,
                            std::vector<SharedMessage>& delivered) {
  if (sequence == delivered_ + 1 && (!irregular_ || irregular_->early.empty())) {
    ++delivered_;
    delivered.push_back(std::move(message));
    return;
  }
  if (sequence <= delivered_ || irregular().early.contains(sequence)) {
    ++refused_;  // had it: our acknowledgement was lost, or somebody replays
    return;
  }
  auto& early = irregular().early;
  early.emplace(sequence, std::move(message));
  while (!early.empty() && early.begin()->first == delivered_ + 1) {
    delivered.push_back(std::move(early.begin()->second));
    early.erase(early.begin());
    ++delivered_;
  }
}

bool CourierSession::IsOfDeadProcess(uint64_t sender_incarnation) const {
  return irregular_ && irregular_->old_incarnations.contains(sender_incarnation);
}

// The peer is another process than last time. True if there was a last time.
bool CourierSession::Follow(Instant now, uint64_t sender_incarnation, std::vector<Frame>& out) {
  const bool known_before = peer_incarnation_ != 0;
  if (known_before) {
    irregular().old_incarnations.insert(peer_incarnation_);
    irregular().early.clear();
  }
  peer_incarnation_ = sender_incarnation;
  delivered_ = 0;
  if (known_before) CarryOver(now, out);
  return known_before;
}

bool CourierSession::OnFrame(Instant now, Frame frame, std::vector<Frame>& out,
                             std::vector<SharedMessage>& delivered) {
  const FrameHeader& header = frame.header;
  if (header.run != options_->run || header.sender_incarnation == 0 ||
      IsOfDeadProcess(header.sender_incarnation)) {
    ++refused_;
    return false;
  }
  const bool restarted =
      header.sender_incarnation != peer_incarnation_ && Follow(now, header.sender_incarnation, out);
  // Meant for a process that was here before this one: the peer will learn of this incarnation from
  // our frames.
  if (header.receiver_incarnation != 0 && header.receiver_incarnation != incarnation_) {
    ++refused_;
    if (!restarted) out.push_back(MakeFrame(0, nullptr));
    return restarted;
  }

  if (header.receiver_incarnation == incarnation_) Acknowledge(now, header.acknowledged);
  if (header.sequence == 0 || !frame.message) return restarted;
  if (header.sequence > delivered_ + kEarlyMax) {
    ++refused_;
    return restarted;
  }
  Accept(header.sequence, std::move(frame.message), delivered);
  if (owed_acks_++ == 0) ack_due_ = now + kAckDelay;
  if (owed_acks_ >= kAckEvery) {
    owed_acks_ = 0;
    out.push_back(MakeFrame(0, nullptr));
  }
  return restarted;
}

// Some of it may have been sent after the peer's process was replaced, by who did not know.
void CourierSession::CarryOver(Instant now, std::vector<Frame>& out) {
  const auto goes = [](const SharedMessage& queued) {
    return !queued || !OutlivesSession(*queued);
  };
  outbox_.erase(std::remove_if(outbox_.begin(), outbox_.end(), goes), outbox_.end());
  acknowledged_ = 0;
  next_sequence_ = 1;
  for (const SharedMessage& message : outbox_) out.push_back(MakeFrame(next_sequence_++, message));
  repeat_after_ = options_->repeat_after;
  repeat_due_ = now + repeat_after_;
}

void CourierSession::Repeat(Instant now, std::vector<Frame>& out) {
  // Only the oldest: if it arrives, the acknowledgement shows what else is missing.
  constexpr size_t kRepeatAtOnce = 4;
  const uint64_t first = FirstUnacknowledged();
  for (size_t i = 0; i < std::min(kRepeatAtOnce, unacknowledged()); ++i)
    out.push_back(MakeFrame(first + i, outbox_[acknowledged_ + i]));
  owed_acks_ = 0;
  repeat_after_ = std::min(repeat_after_ * 2, options_->repeat_after_max);
  repeat_due_ = now + repeat_after_;
}

std::optional<Instant> CourierSession::NextDue() const {
  std::optional<Instant> due;
  if (unacknowledged() > 0) due = repeat_due_;
  if (owed_acks_ > 0 && (!due || ack_due_ < *due)) due = ack_due_;
  return due;
}

void CourierSession::Tick(Instant now, std::vector<Frame>& out) {
  if (unacknowledged() > 0 && repeat_due_ <= now) Repeat(now, out);
  if (owed_acks_ == 0 || ack_due_ > now) return;
  owed_acks_ = 0;
  out.push_back(MakeFrame(0, nullptr));
}

// ---- all peers ---------------------------------------------------------------------------------

uint64_t Courier::IncarnationFor(const NodeId& peer) const {
  const auto it = forgotten_.find(peer);
  return CourierSession::IncarnationAfter(options_.incarnation,
                                          it == forgotten_.end() ? 0 : it->second);
}

Courier::Peer& Courier::PeerOf(const NodeId& id) {
  const auto it = peers_.lower_bound(id);
  if (it != peers_.end() && it->first == id) return it->second;
  Peer fresh{CourierSession(options_, IncarnationFor(id)), std::nullopt};
  return peers_.emplace_hint(it, id, std::move(fresh))->second;
}

void Courier::Address(const NodeId& to, std::vector<Outgoing>& out) {
  for (Frame& frame : frames_) out.push_back({to, std::move(frame)});
  frames_.clear();
}

void Courier::Send(Instant now, const NodeId& to, SharedMessage message,
                   std::vector<Outgoing>& out) {
  Peer& peer = PeerOf(to);
  peer.session.Send(now, std::move(message), frames_);
  Address(to, out);
  List(to, peer);
}

Courier::Delivered Courier::OnFrame(Instant now, const NodeId& from, Frame frame,
                                    std::vector<Outgoing>& out) {
  Delivered delivered;
  Peer& peer = PeerOf(from);
  delivered.restarted = peer.session.OnFrame(now, std::move(frame), frames_, delivered.messages);
  Address(from, out);
  List(from, peer);
  return delivered;
}

void Courier::List(const NodeId& id, Peer& peer) {
  const std::optional<Instant> due = peer.session.NextDue();
  if (!due || (peer.listed && *peer.listed <= *due)) return;
  peer.listed = due;
  due_.push_back({*due, id});
  std::push_heap(due_.begin(), due_.end(), std::greater<>());
}

void Courier::Relist() {
  while (!due_.empty()) {
    const Due first = due_.front();
    const auto it = peers_.find(first.peer);
    const bool counts = it != peers_.end() && it->second.listed == first.at;
    if (counts && it->second.session.NextDue() == first.at) return;
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
    peers_.at(peer).session.Tick(now, frames_);
    Address(peer, out);
  }
}

std::optional<Instant> Courier::NextDue() {
  Relist();
  if (due_.empty()) return std::nullopt;
  return due_.front().at;
}

void Courier::Forget(const NodeId& peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  refused_to_forgotten_ += it->second.session.refused();
  peers_.erase(it);
  ++forgotten_[peer];
}

size_t Courier::Unacknowledged(const NodeId& peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? 0 : it->second.session.unacknowledged();
}

int64_t Courier::refused() const {
  int64_t sum = refused_to_forgotten_;
  for (const auto& [id, peer] : peers_) sum += peer.session.refused();
  return sum;
}

}  // namespace skerry
