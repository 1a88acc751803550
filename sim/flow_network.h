// The simulated network: TCP connections as flows on virtual time.
//
// As the transport has it (wire/transport/transport.h), every ordered pair of nodes has a
// connection for signals and one for bulk. On one connection what is more urgent goes first, and
// breaks off what is under way; of equal urgency, what came first. Below kSmallBytes a message that
// finds its connection idle is one event: what is left of the window goes at line rate, each
// further window costs a round trip; then queueing, one way, jitter, repair of lost packets.
// Anything else is a stream: its rate is the least of its max-min share of the links it crosses,
// the cap of one flow, and its window per round trip; the window follows FlowWindow. A stream with
// no more left than its window goes at line rate. On idle lines this gives the formula
//
//     while left > w and w < rate · T:  t += T;  left −= w;  w *= 2
//     t += left / rate + T/2         (w = 10 segments at first; bbr's first round is 1.4 T long)
//
// which is what Linux TCP through a packet shaper does within a few percent (`./dev bench
// fidelity`), where delay + size/rate is 50 % off. A warm window that finds the pipe empty leaves
// in one burst: what the queue of the narrowest line does not hold is lost, and two round trips
// carry no more than that queue until it is repaired. A slow start of cubic that outgrows line and
// queue loses too, and for a round trip sends what its buffer has left besides what is in flight.
//
// Streams of deltas and states give way while the same sender has an activation to send to another
// peer, as the transport's do (wire/transport/sender_line.h): their weight on what they share is a
// sixteenth, of all together.
//
// Queues: a message waits for small messages before it on each link. A link that streams keep full
// holds a standing queue as measured: 0.4–1 of NetworkSpec::queue under cubic, a round trip at most
// under bbr, none under bbr where packets are lost. Streams do not see each other's queues.
//
// Cut: what is sent or under way on a cut pair stalls and is repeated with TCP's doubling timeout
// once the pair is whole again; after `drop_after` the connection breaks and everything waiting is
// reported lost. If only the way back is cut, one window still gets through.
//
// Pure, on virtual time: nothing depends on anything but the calls and the seed. Calls come with
// times that do not decrease. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/rng.h"
#include "sim/event_queue.h"
#include "sim/flow_map.h"
#include "sim/flow_window.h"
#include "sim/max_min.h"
#include "sim/network_spec.h"
#include "sim/slab.h"

namespace skerry {

struct FlowNetworkOptions {
  // The real host's ZeroMQ gives a silent connection up after this.
  Duration drop_after = Duration::Seconds(30);
  // What a pair pays before its first byte: TCP, ZeroMQ's greeting, CURVE's two exchanges make
  // about 4. 0: connections are there from the start.
  double handshake_round_trips = 0;
  // What the two ends do with a byte before it leaves and after it came: sealing, digest, copies.
  // A message waits for that as a whole, and nothing else does.
  double host_s_per_byte = 0;
};

enum class FlowKind : uint8_t { kSignals, kBulk };

class FlowNetwork {
 public:
  static constexpr int64_t kSmallBytes = 64 * 1024;

  struct Arrival {
    uint64_t tag = 0;
    bool lost = false;    // its connection broke; it will not arrive
    bool unsent = false;  // of a lost one: no byte of it had left, it may be handed over again
    bool operator==(const Arrival&) const = default;
  };

  // What a link carried. Payload bytes; busy is time at full rate, 0 for a link without limit.
  struct LinkUse {
    LinkKind kind = LinkKind::kPath;
    int32_t index = 0;  // FlowMap::index
    double bytes = 0;
    double busy_s = 0;
  };

  FlowNetwork(const NetworkSpec& spec, uint64_t seed, FlowNetworkOptions options = {});
  ~FlowNetwork();
  FlowNetwork(const FlowNetwork&) = delete;
  FlowNetwork& operator=(const FlowNetwork&) = delete;

  // Hands `bytes` > 0 to the connection from → to for bulk; `tag` comes back with its arrival.
  void Send(Instant now, int32_t from, int32_t to, int64_t bytes, uint64_t tag) {
    Send(now, Open(from, to), bytes, tag);
  }
  // The same in two steps: the number of a connection stays valid. `rank`: the TrafficClass, the
  // lower the more urgent.
  int32_t Open(int32_t from, int32_t to, FlowKind kind = FlowKind::kBulk);
  void Send(Instant now, int32_t connection, int64_t bytes, uint64_t tag, uint8_t rank = 0);

  // Takes back what was handed over as `tag`: true if it waited behind other messages and no byte
  // of it had left; then it does not come back.
  bool Withdraw(int32_t connection, uint64_t tag);

  // Begins the handshake of a pair that has none yet; Send does it where nobody did. Bulk needs
  // none of its own: the transport sends it beside signals until its connection stands.
  void Connect(Instant now, int32_t from, int32_t to);

  // When to call Advance next; nullopt when nothing is under way.
  std::optional<Instant> NextDue() const {
    if (rates_dirty_ || !lost_.empty()) return now_;
    if (due_.empty()) return std::nullopt;
    return std::max(now_, Instant::FromNanos(due_.front().at));
  }

  // Moves to `now`; appends what arrived up to then, in order of arrival.
  void Advance(Instant now, std::vector<Arrival>& arrived);

  // One direction between two nodes, or between two regions (also within one).
  void Cut(Instant now, int32_t from, int32_t to, bool cut);
  void CutRegion(Instant now, int32_t from_region, int32_t to_region, bool cut);
  // What the two say to each other goes through node 0, whatever is cut between them.
  void Bridge(Instant now, int32_t a, int32_t b, bool bridged);

  // The node's process died: its connections in both directions break. What had left a sender
  // completely still arrives; the rest is reported lost.
  void DropNode(Instant now, int32_t node);

  // For a host that wants its memory warm: the tags that arrive within the next millisecond or so,
  // new ones whenever turns() grows; and that a connection is about to be used.
  uint64_t turns() const { return due_.turns(); }
  template <typename Visit>
  void ForEachSoon(Visit&& visit) const {
    for (const Due& due : due_.soon())
      if (due.kind == kArrival) visit(due.tag);
  }
  void Prefetch(int32_t connection) const;
  void PrefetchLinks(int32_t connection) const;  // once the connection itself is there

  std::vector<LinkUse> Use(Instant now);  // of links that carried something
  const FlowMap& map() const { return map_; }

 private:
  struct Queued {
    uint64_t tag = 0;
    int64_t bytes = 0;
    uint8_t rank = 0;
    double end = 0;      // in the stream's bytes
    bool begun = false;  // part of it has left
  };
  struct Stream {
    std::deque<Queued> queue;
    double sent = 0, total = 0;  // bytes since the stream began
    int32_t flow = -1;           // of rates_; −1 until the stream starts
    Instant updated;             // `sent` is as of then
    bool all_fits = false;       // what is left is within the window: it goes at line rate
    double round_sent = 0;       // bytes since the round began
    Instant round_start;
    Duration round;         // how long this one takes
    int held_rounds = 0;    // to come that carry held_bytes only
    Duration silence;       // the coming round takes longer by that
    double held_bytes = 0;  // 0: not held
    int64_t rate = 0;
    int64_t window_cap = 0;  // bytes/s the window allows
    Instant next;            // what happens then: a message or a round ends
    Instant queued;          // when the queue wakes it, never later than `next`
    bool is_queued = false;
    int32_t yielding = 0;  // so many of its sender give way to a more urgent one; 0: not it
  };
  // What a small message touches comes first.
  struct alignas(64) Connection {
    Connection(const NetworkSpec& spec, uint64_t seed, uint64_t key);
    int32_t from, to;
    FlowKind kind;
    uint32_t route_version = 0;
    bool established = false;
    bool cut_there = false, cut_back = false;
    bool round_counted = true;  // the window has heard of round_sent
    Instant free;               // the sender has put everything before on the line
    Instant last_arrival;
    Instant round_start;
    double round_sent = 0;
    Rng rng;
    FlowRoute route;
    std::unique_ptr<Stream> stream;
    FlowWindow window;
    std::vector<Queued> returned;  // was under way when the cut caught it
    std::vector<Queued> waiting;   // handed over since
    int64_t weight = 0;            // of its streams in rates_
    double past_cut = 0;           // bytes that got through while the way back is cut
    Instant stalled_since;
    uint32_t stall = 0;       // counts stalls; events of earlier ones are void
    uint32_t generation = 0;  // of the stream's event in the queue; others are void
  };
  struct LinkState {
    int64_t capacity = 0;
    Instant free;  // small messages queue behind each other
    double bytes = 0, busy_s = 0;
  };
  struct Due {
    int64_t at;
    uint64_t sequence;
    uint64_t tag;
    int32_t connection;
    uint32_t kind : 2;
    uint32_t detail : 30;  // kArrival: bytes; otherwise a generation
    bool operator>(const Due& o) const { return at != o.at ? at > o.at : sequence > o.sequence; }
  };
  enum DueKind : uint32_t { kArrival, kStream, kStall, kChange };

  Connection& At(int32_t connection) { return connections_[static_cast<size_t>(connection)]; }
  void FollowMap(Connection& c);
  void Push(Instant at, DueKind kind, int32_t connection, uint64_t tag, uint32_t detail);
  void Handle(const Due& due, std::vector<Arrival>& arrived);
  void ApplyChange(size_t change);
  void Establish(Instant now, const Connection& connection);

  // Small messages (flow_network.cc).
  bool SendSmall(Instant now, int32_t connection, const Queued& message);
  int64_t FreeRate(const Connection& c) const;
  Duration QueueDelay(Instant now, Connection& c, int64_t bytes);
  void Arrive(int32_t connection, const Queued& message, Duration extra);
  void Count(const Connection& c, double bytes);

  // Streams (flow_streams.cc).
  void RenewRound(Connection& c, Instant start);
  void Append(Instant now, int32_t connection, const Queued& message);
  void PutInLine(Stream& s, Queued message);
  void StartStream(Instant now, int32_t connection);
  void BeginRound(Instant now, int32_t connection);
  void BurstFromIdle(Connection& c);
  int64_t Narrowest(const Connection& c) const;  // of the lines it crosses, its cap included
  bool IsRoundOver(Instant now, const Connection& c) const;
  void SetWindowCap(int32_t connection);
  void Settle(Instant now, Connection& c);
  void OnStream(Instant now, int32_t connection);
  void CountRound(Connection& c);
  void EndStream(Instant now, Connection& c);
  double RoomOf(const Connection& c) const;
  bool Counts(const Connection& c) const;
  Instant NextOf(Instant now, const Connection& c) const;
  void Schedule(Instant now, int32_t connection);
  void UpdateRates(Instant now);

  // Who gives way (flow_priority.cc).
  void AddFlow(int32_t connection);
  void TouchSender(const Connection& c);  // what one of its streams has to send first is another
  void WeighSenders(Instant now);
  void SetYielding(Instant now, int32_t connection, int32_t yielding);

  // Cuts (flow_cuts.cc).
  bool IsCut(int32_t from, int32_t to) const;
  void RefreshCuts(Instant now);
  void Stall(Instant now, int32_t connection);
  void EndFlow(Connection& c);
  void BeginStall(Instant now, int32_t connection, Instant since);
  void Wait(Instant now, int32_t connection, const Queued& message, bool was_under_way);
  void Heal(Instant now, int32_t connection);
  void OnStall(Instant now, int32_t connection);
  void Break(Instant now, Connection& c);

  FlowMap map_;
  uint64_t seed_;
  FlowNetworkOptions options_;
  MaxMin rates_;
  bool rates_dirty_ = false;
  int32_t streams_ = 0;  // with a flow in rates_
  Instant now_;
  uint32_t map_version_ = 1;
  uint64_t next_sequence_ = 1;
  EventWheel<Due> due_;
  std::unordered_map<uint64_t, int32_t> connection_of_;  // looked up, never iterated
  Slab<Connection> connections_;
  std::vector<int32_t> flow_owner_;  // connection of each flow of rates_
  std::vector<int32_t> capped_;      // connections whose cap changed since the last UpdateRates
  std::vector<LinkState> links_;
  std::vector<std::vector<int32_t>> streams_of_;  // connections with a flow, by sender
  std::vector<int32_t> touched_;                  // senders whose streams are to be weighed again
  std::set<std::pair<int32_t, int32_t>> cut_nodes_, cut_regions_;
  std::vector<Arrival> lost_;  // to be reported by the next Advance
};

}  // namespace skerry
