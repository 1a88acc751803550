// Exactly-once delivery, in order within a class of traffic, between two living processes over a
// network that loses, repeats and reorders.
//
// A process draws an incarnation at start. Frames carry (sender incarnation, receiver incarnation
// as last seen, sequence, cumulative acknowledgement). A receiver drops what it has had, holds back
// what came early, and acknowledges; a sender repeats what stays unacknowledged. A new incarnation
// of the peer begins both directions anew and is reported. What was not acknowledged goes to the
// new process if it can be of use there (OutlivesSession): its sender may have sent it after the
// replacement without knowing. All else the actors say again.
// Sequences also refuse replays within a session.
//
// Sequences count per class of traffic (wire/message/traffic.h), in a *lane* each: order holds
// within a class, and a heartbeat never waits behind a delta that is still coming. To a peer that
// has not said that it understands lanes (FrameHeader::speaks) everything goes in lane 0.
//
// A message that has not left may be withdrawn: its place in the order goes out empty (a sequence
// without a message), so that what follows is not held back for it.
//
// Messages are made once and shared: the queue for repetition, the frame under way and, in a
// simulation, the receiver hold the same one.
//
// Pure: no sockets, no clock of its own. Not thread-safe. Bounds: kOutboxMax unacknowledged frames
// and kEarlyMax held-back frames per peer and lane; what is beyond them is refused and counted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "common/id_hash.h"
#include "common/ids.h"
#include "common/instant.h"
#include "wire/message/message.h"
#include "wire/message/traffic.h"

namespace skerry {

// Formats of frames: 1 has one lane and whole messages, 2 has lanes and chunks
// (wire/transport/chunk.h). A process speaks to each peer the newest that both understand, and 1
// until it has heard from it.
inline constexpr uint16_t kFormatWithLanes = 2;
inline constexpr uint16_t kNewestFormat = 2;

// What a frame carries besides its message; signed and sealed by the transport, never by the
// courier.
struct FrameHeader {
  RunId run;
  uint64_t sender_incarnation = 0;
  uint64_t receiver_incarnation = 0;  // 0: not known yet
  uint64_t sequence = 0;              // 1, 2, …; 0: a pure acknowledgement without message
  uint64_t acknowledged = 0;          // all sequences of the lane up to this one have arrived
  uint16_t speaks = 1;                // newest format that the sender understands
  uint8_t lane = 0;                   // < kTrafficClasses; 0 for all until lanes are understood
  bool operator==(const FrameHeader&) const = default;
};
struct Frame {
  FrameHeader header;
  SharedMessage message;  // null: a pure acknowledgement, or with a sequence one withdrawn
};

// Of processes that share one identity and take turns in leading (coordinator/lease.h): the epoch
// of the lease stands in the incarnation, above 32 random bits. Of such processes one of an older
// epoch is not listened to by whoever has heard of a newer one, known process or not. All other
// incarnations have epoch 0.
inline constexpr uint64_t kLedIncarnation = uint64_t{1} << 63;
inline constexpr uint64_t LedIncarnation(uint64_t epoch, uint64_t random) {
  return kLedIncarnation | (epoch & 0x7fffffff) << 32 | (random & 0xffffffff);
}
inline constexpr uint64_t EpochOf(uint64_t incarnation) {
  return (incarnation & kLedIncarnation) == 0 ? 0 : incarnation >> 32 & 0x7fffffff;
}

// One process has an incarnation for each time that it forgot a peer, ascending from what a
// multiple of this many tells of the process: what is on its way from before it forgot may come
// after what it sent since, to one that forgot it, too, and knows neither.
inline constexpr uint64_t kConversations = uint64_t{1} << 16;
// The first incarnation of a process, > 0, of random bits.
inline constexpr uint64_t ProcessBits(uint64_t random) {
  return ((random & ~kLedIncarnation) | kConversations) / kConversations * kConversations;
}

struct CourierOptions {
  RunId run;
  uint64_t incarnation = 0;                           // > 0
  Duration repeat_after = Duration::Seconds(8);       // without any progress of acknowledgements
  Duration repeat_after_max = Duration::Seconds(30);  // doubling ends here
  uint16_t speaks = kNewestFormat;
};

// The conversation with one peer. A host with one object per peer (sim/simulation.h) uses it as it
// is; others leave it to Courier. Compact on purpose: a simulation of ten thousand nodes touches
// one per event.
class CourierSession {
 public:
  static constexpr size_t kOutboxMax = 4096;
  static constexpr size_t kEarlyMax = 4096;

  // `options` outlives the session. `incarnation`: what this process shows to the peer.
  CourierSession(const CourierOptions& options, uint64_t incarnation)
      : options_(&options), incarnation_(incarnation) {}

  // Queues a message; the frame to send now is appended to `out`.
  void Send(Instant now, SharedMessage message, std::vector<Frame>& out);

  // A frame came in from the authenticated peer. Frames to send at once (repeats) are appended to
  // `out`, messages that may be delivered now, in order, to `delivered`. True: the peer is a new
  // process; report that before the messages. The acknowledgement is sent by the next Send or Tick,
  // or at once when kAckEvery frames are owed.
  bool OnFrame(Instant now, Frame frame, std::vector<Frame>& out,
               std::vector<SharedMessage>& delivered);

  // Whether the host has taken back what it was given to send of that frame.
  using TakeBack = std::function<bool(size_t lane, uint64_t sequence, const Message&)>;
  // Withdraws what is unacknowledged in the lane of `traffic` and was taken back.
  void Withdraw(TrafficClass traffic, const TakeBack& take_back, std::vector<Frame>& out);

  // A control message of a process of the peer that another has replaced. If more come, it lives
  // all the same: two processes have one identity.
  bool IsOfReplaced(const FrameHeader& heard) const;
  // To that process: `message` as the next that it waits for.
  Frame AnswerReplaced(const FrameHeader& heard, SharedMessage message) const;

  // Repeats and owed acknowledgements that are due. Call at NextDue().
  void Tick(Instant now, std::vector<Frame>& out);
  std::optional<Instant> NextDue() const;

  // What was under way is lost, of messages that go by themselves or of bulk, too: repeats at once.
  void RepeatLost(Instant now, bool bulk_too, std::vector<Frame>& out);

  // What a process shows to a peer that it has forgotten so often.
  static uint64_t IncarnationAfter(uint64_t incarnation, uint64_t times_forgotten);

  uint64_t incarnation() const { return incarnation_; }
  // The format that both sides understand, as far as is known.
  uint16_t format() const { return std::min(peer_speaks_, options_->speaks); }
  size_t unacknowledged() const { return unacknowledged_; }
  int64_t refused() const { return refused_; }
  // What the next acknowledgement will free; nullptr: nothing. For a host that wants it in its
  // caches.
  const Message* oldest() const { return control_.Oldest(); }

 private:
  static constexpr int kAckEvery = 16;
  static constexpr Duration kAckDelay = Duration::Millis(20);
  // A peer that speaks, and has acknowledged nothing for so long, has not got it.
  static constexpr Duration kSpeaksWithoutAck = Duration::Seconds(2);
  static constexpr size_t kRepeatAtOnce = 4;  // nobody knows whether there is a way
  static constexpr size_t kRepeatAfterAck = 16;

  struct Lane {
    uint64_t next_sequence = 1;  // of the next message to the peer
    uint64_t delivered = 0;      // highest in-order sequence received
    // Sequences up to next_sequence − 1, in order; the first `acknowledged` are done with.
    absl::InlinedVector<SharedMessage, 1> outbox;
    uint32_t acknowledged = 0;
    int32_t owed_acks = 0;
    Instant ack_due;
    Instant repeat_due;
    Duration repeat_after;
    // After a repeat: all below `lost_before` was sent before it, of that all below `repeated` is
    // sent again.
    uint64_t lost_before = 0;
    uint64_t repeated = 0;
    std::unique_ptr<std::map<uint64_t, SharedMessage>> early;  // few ever need it

    size_t unacknowledged() const { return outbox.size() - acknowledged; }
    uint64_t FirstUnacknowledged() const { return next_sequence - unacknowledged(); }
    const Message* Oldest() const {
      return unacknowledged() > 0 ? outbox[acknowledged].get() : nullptr;
    }
    bool HasEarly() const { return early && !early->empty(); }
  };
  using BulkLanes = std::array<Lane, kTrafficClasses - 1>;

  // Lanes but the first exist once something went through one of them.
  size_t lanes() const { return bulk_ ? kTrafficClasses : 1; }
  Lane& lane(size_t index);
  const Lane& lane(size_t index) const { return index == 0 ? control_ : (*bulk_)[index - 1]; }

  size_t LaneFor(TrafficClass traffic) const;
  Frame MakeFrame(size_t lane, uint64_t sequence, SharedMessage message) const;
  bool IsOfDeadProcess(uint64_t sender_incarnation) const;
  bool Follow(Instant now, uint64_t sender_incarnation, std::vector<Frame>& out);
  void OnAcknowledged(Instant now, size_t index, uint64_t acknowledged, std::vector<Frame>& out);
  bool Acknowledge(Instant now, Lane& lane, uint64_t acknowledged);
  void Accept(Lane& lane, uint64_t sequence, SharedMessage message,
              std::vector<SharedMessage>& delivered);
  void CarryOver(Instant now, std::vector<Frame>& out);
  void Repeat(Instant now, size_t index, bool all_lost, std::vector<Frame>& out);
  void RepeatUpTo(size_t index, size_t at_once, std::vector<Frame>& out);
  void BeginRepeating(Instant now, Lane& lane) const;

  const CourierOptions* options_;
  uint64_t incarnation_;
  uint64_t peer_incarnation_ = 0;  // 0: not known yet
  Lane control_;
  std::unique_ptr<BulkLanes> bulk_;
  int64_t refused_ = 0;
  uint32_t unacknowledged_ = 0;  // in all lanes
  uint16_t peer_speaks_ = 1;
  uint64_t last_bulk_in_control_ = 0;  // its sequence; 0: none
  // Frames of dead processes still in flight are refused.
  std::unique_ptr<std::set<uint64_t>> old_incarnations_;
};

// The conversations of a process with all its peers.
class Courier {
 public:
  static constexpr size_t kOutboxMax = CourierSession::kOutboxMax;
  static constexpr size_t kEarlyMax = CourierSession::kEarlyMax;

  struct Outgoing {
    NodeId to;
    Frame frame;
  };
  struct Delivered {
    bool restarted = false;               // report OnPeerRestarted before the messages
    std::vector<SharedMessage> messages;  // in order
  };

  explicit Courier(CourierOptions options) : options_(options) {}
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // As CourierSession's.
  void Send(Instant now, const NodeId& to, SharedMessage message, std::vector<Outgoing>& out);
  Delivered OnFrame(Instant now, const NodeId& from, Frame frame, std::vector<Outgoing>& out);
  void Withdraw(const NodeId& to, TrafficClass traffic, const CourierSession::TakeBack& take_back,
                std::vector<Outgoing>& out);
  void Tick(Instant now, std::vector<Outgoing>& out);
  // Rounded up: what thousands of peers are owed falls due one by one, and a host that woke for
  // each would do little else.
  static constexpr Duration kWakesEvery = Duration::Millis(5);
  std::optional<Instant> NextDue();

  // Forgets a peer and everything queued for it. If both meet again, the peer sees a new
  // incarnation and so a restart: sequences never continue over the gap.
  void Forget(const NodeId& peer);

  // Before any message came or went: what this process shows from now on.
  void SetIncarnation(uint64_t incarnation);

  // The incarnation this process shows to `peer`.
  uint64_t IncarnationFor(const NodeId& peer) const;

  // nullptr: there is none. Until the peer is forgotten.
  const CourierSession* SessionWith(const NodeId& peer) const;

  // As CourierSession::format; 1 for a peer that was never heard of.
  uint16_t FormatFor(const NodeId& peer) const;

  // Messages queued to `peer` that it has not acknowledged.
  size_t Unacknowledged(const NodeId& peer) const;
  void RepeatLost(Instant now, const NodeId& peer, bool bulk_too, std::vector<Outgoing>& out);

  // Frames refused so far: wrong run, older incarnation, replayed sequence, beyond the bounds.
  int64_t refused() const;

 private:
  struct Peer {
    CourierSession session;
    std::optional<Instant> listed;  // its earliest entry in due_
  };

  Peer& PeerOf(const NodeId& id);
  // Hands what the session wants sent to `out`.
  void Address(const NodeId& to, std::vector<Outgoing>& out);
  void List(const NodeId& id, Peer& peer);
  // Takes what is out of date off the list.
  void Relist();

  // A heap, earliest first. An entry may be earlier than what its session needs by now, never
  // later: a frame changes its own session only, and none looks at them all.
  struct Due {
    Instant at;
    NodeId peer;
    bool operator>(const Due& o) const { return std::tie(at, peer) > std::tie(o.at, o.peer); }
  };

  CourierOptions options_;
  absl::node_hash_map<NodeId, Peer, IdHash> peers_;
  std::vector<Due> due_;
  std::vector<Frame> frames_;             // of the call under way
  std::map<NodeId, uint64_t> forgotten_;  // how often
  int64_t refused_to_forgotten_ = 0;
};

}  // namespace skerry
