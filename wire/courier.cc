#include "wire/courier.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/check.h"
#include "common/rng.h"

namespace skerry {

// ---- one peer ----------------------------------------------------------------------------------

uint64_t CourierSession::IncarnationAfter(uint64_t incarnation, uint64_t times_forgotten) {
  const uint64_t times = incarnation % kConversations + times_forgotten;
  if (times < kConversations) return incarnation + times_forgotten;
  const uint64_t mixed = ProcessBits(Mix64(incarnation ^ Mix64(times / kConversations)));
  const uint64_t epoch = EpochOf(incarnation);
  return (epoch > 0 ? LedIncarnation(epoch, mixed) : mixed) + times % kConversations;
}

CourierSession::Lane& CourierSession::lane(size_t index) {
  if (index == 0) return control_;
  if (!bulk_) bulk_ = std::make_unique<BulkLanes>();
  return (*bulk_)[index - 1];
}

Frame CourierSession::MakeFrame(size_t index, uint64_t sequence, SharedMessage message) const {
  return {{options_->run, incarnation_, peer_incarnation_, sequence, lane(index).delivered,
           options_->speaks, static_cast<uint8_t>(index)},
          std::move(message)};
}

void CourierSession::BeginRepeating(Instant now, Lane& lane) const {
  lane.repeat_after = options_->repeat_after;
  lane.repeat_due = now + lane.repeat_after;
}

void CourierSession::Send(Instant now, SharedMessage message, std::vector<Frame>& out) {
  const size_t index = LaneFor(ClassOf(*message));
  Lane& to = lane(index);
  // A peer this far behind is gone; membership will say so. Its queue must not eat the process
  // meanwhile.
  if (to.unacknowledged() >= kOutboxMax) {
    ++refused_;
    return;
  }
  if (to.unacknowledged() == 0) BeginRepeating(now, to);
  to.outbox.push_back(message);
  ++unacknowledged_;
  to.owed_acks = 0;
  const bool has_other_lane = ClassOf(*message) != TrafficClass::kControl;
  if (index == 0 && has_other_lane) last_bulk_in_control_ = to.next_sequence;
  out.push_back(MakeFrame(index, to.next_sequence++, std::move(message)));
}

// As long as bulk that was sent in the first lane may still be on its way, more follows it there: a
// class keeps its order.
size_t CourierSession::LaneFor(TrafficClass traffic) const {
  const bool has_lanes =
      format() >= kFormatWithLanes && control_.FirstUnacknowledged() > last_bulk_in_control_;
  return has_lanes ? static_cast<size_t>(traffic) : 0;
}

// A burst of losses, as when a connection broke, is repeated as fast as acknowledgements come.
void CourierSession::OnAcknowledged(Instant now, size_t index, uint64_t acknowledged,
                                    std::vector<Frame>& out) {
  Lane& to = lane(index);
  const bool got_on = Acknowledge(now, to, acknowledged);
  if (got_on) return RepeatUpTo(index, kRepeatAfterAck, out);
  const Instant last = to.repeat_due - to.repeat_after;  // progress, or repeat
  if (index == 0 && to.unacknowledged() > 0 && now - last >= kSpeaksWithoutAck)
    Repeat(now, index, true, out);
}

// True: it got on.
bool CourierSession::Acknowledge(Instant now, Lane& lane, uint64_t acknowledged) {
  const uint64_t first = lane.FirstUnacknowledged();
  if (lane.unacknowledged() == 0 || acknowledged < first) return false;
  const size_t done = std::min<size_t>(acknowledged - first + 1, lane.unacknowledged());
  for (size_t i = 0; i < done; ++i) lane.outbox[lane.acknowledged++].reset();
  unacknowledged_ -= static_cast<uint32_t>(done);
  // Seldom, so that it costs little per message.
  if (2 * lane.acknowledged >= lane.outbox.size()) {
    lane.outbox.erase(lane.outbox.begin(), lane.outbox.begin() + lane.acknowledged);
    lane.acknowledged = 0;
  }
  BeginRepeating(now, lane);
  return true;
}

void CourierSession::Accept(Lane& lane, uint64_t sequence, SharedMessage message,
                            std::vector<SharedMessage>& delivered) {
  if (sequence == lane.delivered + 1 && !lane.HasEarly()) {
    ++lane.delivered;
    if (message) delivered.push_back(std::move(message));
    return;
  }
  if (sequence <= lane.delivered || (lane.early && lane.early->contains(sequence))) {
    ++refused_;  // had it: our acknowledgement was lost, or somebody replays
    return;
  }
  if (!lane.early) lane.early = std::make_unique<std::map<uint64_t, SharedMessage>>();
  auto& early = *lane.early;
  early.emplace(sequence, std::move(message));
  while (!early.empty() && early.begin()->first == lane.delivered + 1) {
    if (early.begin()->second) delivered.push_back(std::move(early.begin()->second));
    early.erase(early.begin());
    ++lane.delivered;
  }
}

bool CourierSession::IsOfDeadProcess(uint64_t sender_incarnation) const {
  if (EpochOf(sender_incarnation) < EpochOf(peer_incarnation_)) return true;
  const bool same_process =
      sender_incarnation / kConversations == peer_incarnation_ / kConversations;
  if (same_process && sender_incarnation < peer_incarnation_) return true;
  return old_incarnations_ && old_incarnations_->contains(sender_incarnation);
}

bool CourierSession::IsOfReplaced(const FrameHeader& heard) const {
  const bool same_process =
      heard.sender_incarnation / kConversations == peer_incarnation_ / kConversations;
  return heard.lane == 0 && heard.sequence > 0 && !same_process && old_incarnations_ &&
         old_incarnations_->contains(heard.sender_incarnation);
}

Frame CourierSession::AnswerReplaced(const FrameHeader& heard, SharedMessage message) const {
  const bool knows_us = heard.receiver_incarnation == incarnation_;
  const uint64_t next = knows_us ? heard.acknowledged + 1 : 1;
  return {{options_->run, incarnation_, heard.sender_incarnation, next, 0, options_->speaks, 0},
          std::move(message)};
}

// The peer is another process than last time. True if there was a last time.
bool CourierSession::Follow(Instant now, uint64_t sender_incarnation, std::vector<Frame>& out) {
  const bool known_before = peer_incarnation_ != 0;
  if (known_before) {
    if (!old_incarnations_) old_incarnations_ = std::make_unique<std::set<uint64_t>>();
    old_incarnations_->insert(peer_incarnation_);
  }
  peer_incarnation_ = sender_incarnation;
  for (size_t i = 0; i < lanes(); ++i) {
    lane(i).delivered = 0;
    if (known_before) lane(i).early.reset();
  }
  if (known_before) CarryOver(now, out);
  return known_before;
}

bool CourierSession::OnFrame(Instant now, Frame frame, std::vector<Frame>& out,
                             std::vector<SharedMessage>& delivered) {
  const FrameHeader& header = frame.header;
  if (header.run != options_->run || header.sender_incarnation == 0 ||
      header.lane >= kTrafficClasses || IsOfDeadProcess(header.sender_incarnation)) {
    ++refused_;
    return false;
  }
  peer_speaks_ = header.speaks;
  const bool restarted =
      header.sender_incarnation != peer_incarnation_ && Follow(now, header.sender_incarnation, out);
  // Meant for a process that was here before this one: the peer will learn of this incarnation from
  // our frames.
  if (header.receiver_incarnation != 0 && header.receiver_incarnation != incarnation_) {
    ++refused_;
    if (!restarted) out.push_back(MakeFrame(0, 0, nullptr));
    return restarted;
  }

  Lane& from = lane(header.lane);
  if (header.receiver_incarnation == incarnation_)
    OnAcknowledged(now, header.lane, header.acknowledged, out);
  if (header.sequence == 0) return restarted;
  if (header.sequence > from.delivered + kEarlyMax) {
    ++refused_;
    return restarted;
  }
  Accept(from, header.sequence, std::move(frame.message), delivered);
  if (from.owed_acks++ == 0) from.ack_due = now + kAckDelay;
  if (from.owed_acks >= kAckEvery) {
    from.owed_acks = 0;
    out.push_back(MakeFrame(header.lane, 0, nullptr));
  }
  return restarted;
}

// Not in lane 0: there it may be bulk for a peer that knows no lanes, nor what is withdrawn.
void CourierSession::Withdraw(TrafficClass traffic, const TakeBack& take_back,
                              std::vector<Frame>& out) {
  const auto index = static_cast<size_t>(traffic);
  if (index == 0 || !bulk_) return;
  Lane& from = lane(index);
  uint64_t sequence = from.FirstUnacknowledged();
  for (size_t i = from.acknowledged; i < from.outbox.size(); ++i, ++sequence) {
    if (!from.outbox[i] || !take_back(index, sequence, *from.outbox[i])) continue;
    from.outbox[i].reset();
    out.push_back(MakeFrame(index, sequence, nullptr));
  }
}

// Some of it may have been sent after the peer's process was replaced, by who did not know.
void CourierSession::CarryOver(Instant now, std::vector<Frame>& out) {
  const auto goes = [](const SharedMessage& queued) {
    return !queued || !OutlivesSession(*queued);
  };
  std::vector<SharedMessage> kept;
  for (size_t i = 0; i < lanes(); ++i) {
    Lane& old = lane(i);
    for (SharedMessage& message : old.outbox) {
      if (!goes(message)) kept.push_back(std::move(message));
    }
    old.outbox.clear();
    old.acknowledged = 0;
    old.next_sequence = 1;
    old.lost_before = 0;
    old.repeated = 0;
  }
  unacknowledged_ = 0;
  last_bulk_in_control_ = 0;
  for (SharedMessage& message : kept) Send(now, std::move(message), out);
}

// Only the oldest: if it arrives, the acknowledgement says that there is a way.
void CourierSession::Repeat(Instant now, size_t index, bool all_lost, std::vector<Frame>& out) {
  Lane& late = lane(index);
  late.repeated = late.FirstUnacknowledged();
  late.lost_before = all_lost ? late.next_sequence : late.repeated + kRepeatAtOnce;
  RepeatUpTo(index, kRepeatAtOnce, out);
  late.owed_acks = 0;
  late.repeat_after = std::min(late.repeat_after * 2, options_->repeat_after_max);
  late.repeat_due = now + late.repeat_after;
}

// Of what is lost at most `at_once` are under way again.
void CourierSession::RepeatUpTo(size_t index, size_t at_once, std::vector<Frame>& out) {
  Lane& late = lane(index);
  const uint64_t first = late.FirstUnacknowledged();
  const uint64_t end = std::min({first + at_once, late.lost_before, late.next_sequence});
  for (late.repeated = std::max(late.repeated, first); late.repeated < end; ++late.repeated) {
    const SharedMessage& message = late.outbox[late.acknowledged + late.repeated - first];
    out.push_back(MakeFrame(index, late.repeated, message));
  }
}

std::optional<Instant> CourierSession::NextDue() const {
  std::optional<Instant> due;
  for (size_t i = 0; i < lanes(); ++i) {
    const Lane& at = lane(i);
    if (at.unacknowledged() > 0 && (!due || at.repeat_due < *due)) due = at.repeat_due;
    if (at.owed_acks > 0 && (!due || at.ack_due < *due)) due = at.ack_due;
  }
  return due;
}

void CourierSession::Tick(Instant now, std::vector<Frame>& out) {
  for (size_t i = 0; i < lanes(); ++i) {
    Lane& at = lane(i);
    // Bulk that is late may still be under way.
    if (at.unacknowledged() > 0 && at.repeat_due <= now) Repeat(now, i, i == 0, out);
    if (at.owed_acks == 0 || at.ack_due > now) continue;
    at.owed_acks = 0;
    out.push_back(MakeFrame(i, 0, nullptr));
  }
}

void CourierSession::RepeatLost(Instant now, bool bulk_too, std::vector<Frame>& out) {
  for (size_t i = 0; i < (bulk_too ? lanes() : 1); ++i) {
    if (lane(i).unacknowledged() == 0) continue;
    lane(i).repeat_after = options_->repeat_after / 2;  // doubled by the repeat
    Repeat(now, i, true, out);
  }
}

// ---- all peers ---------------------------------------------------------------------------------

void Courier::SetIncarnation(uint64_t incarnation) {
  SKERRY_CHECK(peers_.empty(), "an incarnation is one process's for life");
  options_.incarnation = incarnation;
}

uint64_t Courier::IncarnationFor(const NodeId& peer) const {
  const auto it = forgotten_.find(peer);
  return CourierSession::IncarnationAfter(options_.incarnation,
                                          it == forgotten_.end() ? 0 : it->second);
}

Courier::Peer& Courier::PeerOf(const NodeId& id) {
  const auto it = peers_.find(id);
  if (it != peers_.end()) return it->second;
  Peer fresh{CourierSession(options_, IncarnationFor(id)), std::nullopt};
  return peers_.emplace(id, std::move(fresh)).first->second;
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

void Courier::Withdraw(const NodeId& to, TrafficClass traffic,
                       const CourierSession::TakeBack& take_back, std::vector<Outgoing>& out) {
  const auto it = peers_.find(to);
  if (it == peers_.end()) return;
  it->second.session.Withdraw(traffic, take_back, frames_);
  Address(to, out);
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
  const int64_t grid = kWakesEvery.nanos(), at = due_.front().at.nanos();
  return Instant::FromNanos((at + grid - 1) / grid * grid);
}

void Courier::Forget(const NodeId& peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  refused_to_forgotten_ += it->second.session.refused();
  peers_.erase(it);
  ++forgotten_[peer];
}

const CourierSession* Courier::SessionWith(const NodeId& peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : &it->second.session;
}

uint16_t Courier::FormatFor(const NodeId& peer) const {
  const CourierSession* session = SessionWith(peer);
  return session == nullptr ? 1 : session->format();
}

size_t Courier::Unacknowledged(const NodeId& peer) const {
  const CourierSession* session = SessionWith(peer);
  return session == nullptr ? 0 : session->unacknowledged();
}

void Courier::RepeatLost(Instant now, const NodeId& peer, bool bulk_too,
                         std::vector<Outgoing>& out) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  it->second.session.RepeatLost(now, bulk_too, frames_);
  Address(peer, out);
  List(peer, it->second);
}

int64_t Courier::refused() const {
  int64_t sum = refused_to_forgotten_;
  for (const auto& [id, peer] : peers_) sum += peer.session.refused();
  return sum;
}

}  // namespace skerry
