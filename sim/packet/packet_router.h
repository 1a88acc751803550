// The network between the nodes, as arithmetic on virtual time: packets enter, cross the lines of
// their way one after the other, and come out as pieces at their due times.
//
// Every segment is charged to every line it crosses, may be lost on the way, or find a queue full.
// Neighbouring segments travel together as one piece, no longer than kPieceTime of the slowest
// line, so that nothing is delivered much before or after its time. Pieces of one ordered pair of
// nodes never overtake each other: jitter is drawn once per kJitterTime and pair, as the state of a
// path, not per packet.
//
// Loss and jitter come from one random stream per ordered pair: the n-th segment of a pair is lost
// or not whatever the clock does. Pure; calls come with times that do not decrease; not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "common/rng.h"
#include "sim/packet/packet_line.h"
#include "sim/packet/packet_plan.h"
#include "sim/packet/segments.h"

namespace skerry {

// A run of segments of a packet. `packet` is shared by the pieces it was taken apart into.
struct PacketPiece {
  std::shared_ptr<const Packet> packet;
  PacketShape shape;
  int32_t first = 0, count = 1;
  int32_t from = 0, to = 0;
  Passage passage;  // the last segment is due at passage.last

  Packet Cut() const { return CutPiece(*packet, shape, first, count); }
};

struct PacketCounters {
  int64_t segments = 0;   // entered
  int64_t lost = 0;       // of them, at random
  int64_t dropped = 0;    // of them, at a full queue
  int64_t delivered = 0;  // of them
  int64_t not_ours = 0;   // packets: not IPv4, or to nobody here
  int64_t bytes = 0;      // delivered, headers included
};

class PacketRouter {
 public:
  static constexpr Duration kPieceTime = Duration::Micros(250);
  static constexpr Duration kJitterTime = Duration::Millis(20);

  PacketRouter(PacketPlan plan, uint64_t seed);

  // A packet that node `from` sends.
  void Enter(Instant now, int32_t from, Packet packet);

  // When to call Advance next; nullopt when nothing is under way. What happens on the near side of
  // the delay is computed later than it happens, but in time for what follows from it.
  std::optional<Instant> NextDue() const;

  // Appends what is due by `now`, in order of due time.
  void Advance(Instant now, std::vector<PacketPiece>& due);

  const PacketCounters& counters() const { return counters_; }
  const PacketPlan& plan() const { return plan_; }

 private:
  struct Event {
    Instant at;
    uint64_t sequence;
    size_t hop;  // of the route; its size: delivery
    PacketPiece piece;
    bool operator<(const Event& o) const {  // a heap's top is the largest
      return at != o.at ? at > o.at : sequence > o.sequence;
    }
  };
  struct Pair {
    Pair(uint64_t seed, uint64_t number)
        : loss(seed, "loss", number), jitter(seed, "jitter", number) {}
    Rng loss, jitter;
    int64_t segments_to_loss = -1;  // < 0: not drawn
    Duration delay;                 // of jitter, drawn at `drawn`
    std::optional<Instant> drawn;
    Instant last;  // nothing of this pair comes out of the lossy hop before
  };

  Pair& PairOf(const PacketPiece& piece);
  // What happens before the delay of a route, after it, and at the receiver: lines belong to one of
  // the first two, so each is a queue of its own.
  enum Side : size_t { kNear, kFar, kOut };
  static constexpr size_t kSides = 3;
  using Heap = std::vector<Event>;

  void Push(Instant at, size_t hop, PacketPiece piece);
  Event Pop(Side side);
  void Cross(Event event);
  void SendOn(const PacketRoute& route, size_t hop, PacketPiece piece);
  void Scatter(const PacketRoute& route, size_t hop, PacketPiece piece);
  bool IsLost(const PacketRoute& route, Pair& pair);
  Duration Jitter(const PacketRoute& route, Pair& pair, Instant now);

  PacketPlan plan_;
  std::vector<PacketLine> lines_;
  std::vector<Pair> pairs_;  // [nodes, nodes]
  std::array<Heap, kSides> heaps_;
  Duration near_slack_;  // half of the least delay
  uint64_t sequence_ = 0;
  PacketCounters counters_;
};

}  // namespace skerry
