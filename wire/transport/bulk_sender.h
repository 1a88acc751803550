// What this process has to send to one peer in bulk: which chunk goes next, over which connection.
//
// Strictly by class: a chunk of a later class leaves only when no earlier one has any left. Not
// more is under way than the window (window.h) and the receiver's credit allow; an activation may
// go a little beyond the window, so that it never waits behind more than the chunk before it. A
// chunk waits here until a connection ("stripe") has little left to send, and of those goes over
// the one with the least in the line. Stripe 0 is kept for activations where there are any and
// there is another for the rest: what waits in a connection's own buffer waits in order.
//
// A stripe that acknowledges nothing for a long time, or is gone, loses its chunks to the others.
// What was sent twice is recognised by the receiver.
//
// Pairs of a process share its line: sender_line.h says when one of them may send.
//
// Pure; not thread-safe. Bounded by the courier's outbox, which feeds it, and the window.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/digest.h"
#include "wire/shaper.h"
#include "wire/transport/bulk_stripe.h"
#include "wire/transport/carried_rate.h"
#include "wire/transport/link_message.h"
#include "wire/transport/pace.h"
#include "wire/transport/sender_line.h"
#include "wire/transport/window.h"

namespace skerry {

class BulkSender {
 public:
  // Stands in for bulk connections while there is none.
  static constexpr StripeId kControlStripe = kStripesMax;
  static constexpr Duration kStalledAfter = Duration::Seconds(8);
  // Longer than a chunk takes on a line of a hundredth of what it was cut for.
  static constexpr Duration kBeginsAnewAfter = Duration::Seconds(30);
  static constexpr Duration kActivationsMatterFor = Duration::Seconds(30);

  // `session`: > 0, ascending with every sender of a process (IsOlderSession).
  explicit BulkSender(uint64_t session) : session_(session) {}

  // Of a class other than control.
  void Enqueue(Instant now, OutgoingFrame frame);
  // True: a frame of this class and sequence waits here, nothing of it has left, and it is gone.
  bool Withdraw(TrafficClass traffic, uint64_t sequence);

  void OpenStripe(Instant now, StripeId stripe);
  // It is gone; its chunks go elsewhere.
  void CloseStripe(StripeId stripe);
  bool HasStripe(StripeId stripe) const { return stripes_.contains(stripe); }

  // Before it may be asked for chunks, or is not since others go first.
  void BeginTurn(Instant now, const SenderLine::Common& common);

  // The next chunk to put on the wire; it counts as under way. nullopt: nothing may go now.
  struct Transmission {
    StripeId stripe = 0;
    Bytes bytes;  // header and chunk
    uint64_t serial = 0;
  };
  std::optional<Transmission> Next(Instant now,
                                   SenderLine::What what = SenderLine::What::kAnything);
  // It did not go after all: its connection is full.
  void TakeBack(uint64_t serial);

  void OnAcks(Instant now, const AcksMessage& acks);
  // What the kernel says of this connection: what is in the line, and whether it takes more.
  // Without that (nullopt), all that is not acknowledged counts as in the line.
  void OnReading(Instant now, StripeId stripe, std::optional<ConnectionReading> reading);
  // nullopt: of no probe that this one sent and that has no echo yet. Whoever makes up others could
  // seem to be near, and so in front of all, or to keep a queue.
  std::optional<SenderLine::Reading> OnEcho(Instant now, const ProbeMessage& probe);

  // A probe for the control connection, if one is due.
  std::optional<ProbeMessage> ProbeDue(Instant now);
  // Stripes that say nothing any more; their chunks go elsewhere.
  std::vector<StripeId> Tick(Instant now);
  // When ProbeDue or Tick have something to do.
  std::optional<Instant> NextDue() const;

  // How many bulk connections there should be, without that for signals.
  uint16_t WantedStripes(Instant now) const;
  // Frames of this class, or of all, that the peer does not have completely.
  size_t Unfinished(TrafficClass traffic) const;
  // Whether something of this class has still to leave, for the first time or again.
  bool Waits(TrafficClass traffic) const;
  bool IsIdle() const { return transfers_.empty(); }
  int64_t under_way_bytes() const { return under_way_bytes_; }
  uint64_t session() const { return session_; }
  SenderLine::Pair InSenderLine(Instant now) const;
  const CongestionWindow& window() const { return window_; }
  double carried_bytes_per_s() const { return carried_.best(); }  // 0: not known
  // Since when nothing gets through, if it is longer than kStalledAfter.
  std::optional<Instant> StalledSince(Instant now) const;
  // Whether an answer to a probe, which is small, has just come.
  bool AnswersProbes(Instant now) const;

 private:
  struct Transfer {
    OutgoingFrame frame;
    int64_t total_bytes = 0;
    int64_t cut = 0;         // chunks up to here were made
    std::set<int64_t> open;  // offsets of chunks that are not acknowledged
    DigestStream hash;
    std::optional<Digest> digest;  // once all is cut
  };
  struct Chunk {
    uint64_t transfer = 0;
    int64_t offset = 0, bytes = 0;
    TrafficClass traffic = TrafficClass::kData;
  };
  struct Sent {
    Chunk chunk;
    StripeId stripe = 0;
    Instant at;
  };
  // What the window leaves: of the line, and of all that may be under way.
  struct Room {
    int64_t line = 0, bytes = 0;
  };
  Room RoomNow() const;
  CongestionWindow::Limit LimitNow(Instant now, const Room& room) const;
  // Of what is there to send, the most urgent; drops repeats that are not needed any more.
  std::optional<TrafficClass> NextTraffic(bool only_activations);
  std::optional<Chunk> NextChunk(TrafficClass traffic, int64_t most_bytes);
  std::optional<Chunk> Cut(uint64_t transfer, int64_t most_bytes);
  bool IsOpen(const Chunk& chunk) const;  // not acknowledged
  bool IsOwed() const;
  bool IsNear() const { return window_.round_trip().value_or(Duration()) < SenderLine::kNear; }
  std::map<uint64_t, Sent>::iterator Latest(Instant now, std::optional<TrafficClass> waits);
  std::map<StripeId, BulkStripe>::iterator StripeFor(Instant now, TrafficClass traffic,
                                                     std::optional<StripeId> except = {});
  bool ActivationsMatter(Instant now) const;
  Bytes Assemble(const Chunk& chunk, uint64_t serial);
  void Free(const Sent& sent);
  std::map<uint64_t, Sent>::iterator GiveUp(std::map<uint64_t, Sent>::iterator at);
  void Requeue(StripeId stripe);
  int64_t InLine() const;
  void Space(Instant now, const Chunk& chunk, int64_t line_room);
  void ForgetRepeats();
  void Acknowledge(Instant now, uint64_t serial);
  Duration Patience() const;

  uint64_t session_;
  bool short_chunks_ = false;  // the peer understands them
  uint64_t next_transfer_ = 1, next_serial_ = 1;
  std::map<uint64_t, Transfer> transfers_;
  std::array<std::deque<uint64_t>, kTrafficClasses> queues_;  // transfers with chunks to cut
  std::array<std::deque<Chunk>, kTrafficClasses> again_;      // chunks to send once more
  std::array<size_t, kTrafficClasses> unfinished_{};
  std::map<uint64_t, Sent> sent_;       // by serial, under way
  std::map<uint64_t, Chunk> given_up_;  // sent again since; an acknowledgement still counts
  std::map<StripeId, BulkStripe> stripes_;
  CongestionWindow window_;
  Pace pace_;
  // With this serial an almost empty line began to be filled; until it, or a later one, has come.
  std::optional<uint64_t> refills_from_;
  CarriedRate carried_;
  std::map<int64_t, int64_t> probed_;  // what was in the line, by the time when the probe left
  int64_t under_way_bytes_ = 0;
  int64_t new_bytes_ = 0;      // cut so far
  int64_t arrived_bytes_ = 0;  // of these, acknowledged
  int64_t credit_bytes_ = 0;   // of new ones granted; the first are known without asking
  // What kept more from being sent when Next was last asked.
  CongestionWindow::Limit limit_ = CongestionWindow::Limit::kNothing;
  uint16_t grown_ = 1;  // stripes that TCP's holding back has asked for
  int held_rounds_ = 0;
  Instant newest_come_;  // when the last of what was acknowledged had left
  Instant progress_;  // the last acknowledgement, or when there began to be something to wait for
  std::optional<Instant> last_activation_, echoed_;
  std::optional<Instant> began_, next_probe_, look_again_;
  bool was_asked_ = true;  // since BeginTurn, or it had nothing
  Instant turn_began_;
  std::optional<int64_t> turn_bytes_;  // the most that one chunk may have; nullopt: not shared
};

}  // namespace skerry
