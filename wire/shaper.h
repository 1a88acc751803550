// The wide area inside one process: what this node sends is held back as long as a line of a given
// rate and delay would hold it. Needs no privileges and works anywhere; it shows no TCP effect
// (shape the real packets for that).
//
// A frame first waits its turn, then occupies its line for bytes / rate, and the node's own uplink
// for bytes / uplink rate, both from the same moment; when the slower of the two is done it travels
// one_way and is due. Waiting frames of one peer leave by class, in order within a class; the
// uplink, free again, takes the best class among the peers whose lines are free, then the longest
// waiting. A frame under way is never interrupted.
//
// Pure: time is an argument and never goes back. Not thread-safe. Bounded by the couriers' outboxes
// that feed it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/instant.h"
#include "wire/message/message.h"
#include "wire/message/traffic.h"
#include "wire/shape_config.h"

namespace skerry {

// An encoded frame on its way out.
struct OutgoingFrame {
  NodeId to;
  TrafficClass traffic = TrafficClass::kControl;
  Bytes envelope;
  Payload payload;  // shared
  bool in_chunks =
      false;              // encoded with DigestPlace::kTransfer, for a peer that understands chunks
  uint64_t sequence = 0;  // in its class, for Withdraw

  int64_t bytes() const { return static_cast<int64_t>(envelope.size()) + SizeOf(payload); }
};

class Shaper {
 public:
  // 0: the uplink has no limit of its own.
  explicit Shaper(double up_bytes_per_s = 0) : up_bytes_per_s_(up_bytes_per_s) {}

  // Frames enqueued from now on for this peer meet this link.
  void SetLink(const NodeId& peer, const LinkShape& link) { lines_[peer].shape = link; }

  // SetLink must have been called for frame.to.
  void Enqueue(Instant now, OutgoingFrame frame);

  // True: a frame of this class and sequence waits for its turn here, and is gone.
  bool Withdraw(const NodeId& peer, TrafficClass traffic, uint64_t sequence);

  // Appends the frames that have arrived by `now`, in order of arrival.
  void Advance(Instant now, std::vector<OutgoingFrame>& arrived);

  // When Advance has something to do again.
  std::optional<Instant> NextDue() const;

  // Frames to this peer, or to all, that have not arrived.
  size_t Waiting(const NodeId& peer) const;
  size_t Waiting() const;

  // Drops the peer's link and returns what had not arrived, in order of sending within a class.
  std::vector<OutgoingFrame> Forget(const NodeId& peer);

 private:
  struct Queued {
    Instant since;
    uint64_t order = 0;
    OutgoingFrame frame;
  };
  struct Line {
    LinkShape shape;
    Instant free;  // from here on it takes the next frame
    std::array<std::deque<Queued>, kTrafficClasses> queues;
    size_t waiting = 0;  // queued or travelling
  };
  struct Turn {
    Instant start;
    size_t traffic = 0;
    uint64_t order = 0;
    NodeId peer;
    auto operator<=>(const Turn&) const = default;
  };

  std::optional<Turn> NextTurn() const;
  void StartUntil(Instant now);

  double up_bytes_per_s_;
  Instant up_free_;
  std::map<NodeId, Line> lines_;
  std::map<std::pair<Instant, uint64_t>, OutgoingFrame> travelling_;  // by (due, order)
  uint64_t next_order_ = 0;
};

}  // namespace skerry
