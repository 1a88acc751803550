// Exactly-once, in-order delivery between two living processes over a network that loses, repeats
// and reorders.
//
// A process draws an incarnation at start. Frames carry (sender incarnation, receiver incarnation
// as last seen, sequence, cumulative acknowledgement). A receiver drops what it has had, holds back
// what came early, and acknowledges; a sender repeats what stays unacknowledged. A new incarnation
// of the peer begins both directions anew and is reported. What was not acknowledged goes to the
// new process if it can be of use there (OutlivesSession): its sender may have sent it after the
// replacement without knowing. All else the actors say again.
// Sequences also refuse replays within a session.
//
// Pure: no sockets, no clock of its own. Not thread-safe. Bounds: kOutboxMax unacknowledged frames
// and kEarlyMax held-back frames per peer; a peer beyond them is treated as lost and reported by
// Overflowed().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "wire/message/message.h"

namespace skerry {

// What a frame carries besides its message; signed and sealed by the transport, never by the
// courier.
struct FrameHeader {
  RunId run;
  uint64_t sender_incarnation = 0;
  uint64_t receiver_incarnation = 0;  // 0: not known yet
  uint64_t sequence = 0;              // 1, 2, …; 0: a pure acknowledgement without message
  uint64_t acknowledged = 0;          // all sequences up to this one have arrived
  bool operator==(const FrameHeader&) const = default;
};
struct Frame {
  FrameHeader header;
  std::optional<Message> message;
};

struct CourierOptions {
  RunId run;
  uint64_t incarnation = 0;                           // > 0
  Duration repeat_after = Duration::Seconds(8);       // without any progress of acknowledgements
  Duration repeat_after_max = Duration::Seconds(30);  // doubling ends here
};

class Courier {
 public:
  static constexpr size_t kOutboxMax = 4096;
  static constexpr size_t kEarlyMax = 4096;

  struct Outgoing {
    NodeId to;
    Frame frame;
  };
  struct Delivered {
    NodeId from;
    bool restarted = false;         // report OnPeerRestarted before the messages
    std::vector<Message> messages;  // in order
  };

  explicit Courier(CourierOptions options) : options_(options) {}

  // Queues a message; the frame to send now is appended to `out`.
  void Send(Instant now, const NodeId& to, Message message, std::vector<Outgoing>& out);

  // A frame came in from an authenticated peer. Frames to send at once (repeats) are appended to
  // `out`; the acknowledgement is sent by the next Send or Tick, or at once when kAckEvery frames
  // are owed.
  Delivered OnFrame(Instant now, const NodeId& from, Frame frame, std::vector<Outgoing>& out);

  // Repeats and owed acknowledgements that are due. Call at NextDue().
  void Tick(Instant now, std::vector<Outgoing>& out);
  std::optional<Instant> NextDue();

  // Forgets a peer and everything queued for it. If both meet again, the peer sees a new
  // incarnation and so a restart: sequences never continue over the gap.
  void Forget(const NodeId& peer);

  // The incarnation this process shows to `peer`.
  uint64_t IncarnationFor(const NodeId& peer) const;

  // Messages queued to `peer` that it has not acknowledged.
  size_t Unacknowledged(const NodeId& peer) const;

  // Frames refused so far: wrong run, older incarnation, replayed sequence, beyond the bounds.
  int64_t refused() const { return refused_; }

 private:
  static constexpr int kAckEvery = 16;
  static constexpr Duration kAckDelay = Duration::Millis(20);

  struct Session {
    uint64_t peer_incarnation = 0;
    uint64_t next_sequence = 1;  // of the next message to the peer
    std::deque<std::pair<uint64_t, Message>> outbox;
    uint64_t delivered = 0;  // highest in-order sequence received
    std::map<uint64_t, Message> early;
    int owed_acks = 0;
    Instant ack_due;
    Instant repeat_due;
    Duration repeat_after;
    std::optional<Instant> listed;        // its earliest entry in due_
    std::set<uint64_t> old_incarnations;  // frames of dead processes still in flight are refused
  };

  Frame MakeFrame(const NodeId& to, const Session& session, uint64_t sequence,
                  const Message* message) const;
  void Acknowledge(Instant now, Session& session, uint64_t acknowledged);
  void Accept(Session& session, uint64_t sequence, Message message, Delivered& delivered);
  void CarryOver(Instant now, const NodeId& to, Session& session, std::vector<Outgoing>& out);
  void Repeat(Instant now, const NodeId& to, Session& session, std::vector<Outgoing>& out);
  static std::optional<Instant> DueOf(const Session& session);
  void List(const NodeId& peer, Session& session);
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
  std::map<NodeId, Session> sessions_;
  std::vector<Due> due_;
  std::map<NodeId, uint64_t> forgotten_;  // how often
  int64_t refused_ = 0;
};

}  // namespace skerry
