// The relay's side: which connections are joined, and how much may be under way between them.
//
// A *wire* is a connection that a node has attached to one stripe of a pair; two wires of the same
// stripe, one of each end, are joined. A part is forwarded from a wire to the one that it is joined
// with, or refused: nothing waits here. What was forwarded and not confirmed by its receiver (Got)
// counts as under way, for its pair and for all; beyond the budgets parts are refused. The sender's
// chunks are sent again like any that a network lost, its window shrinks.
//
// Pure: no sockets, no clock, no keys; who says something is proven before. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "wire/transport/relay_message.h"

namespace skerry {

class RelayDesk {
 public:
  using Wire = std::string;  // a ZeroMQ routing id

  struct Budget {
    int64_t pair_bytes = int64_t{8} << 20;  // under way, both directions
    int64_t all_bytes = int64_t{256} << 20;
    size_t pairs = 4096;
  };
  static constexpr Duration kMeetings = Duration::Seconds(5);  // between two of a wire's, at least
  static constexpr Duration kWireSilent = Duration::Seconds(30);  // not attached again: it is gone

  RelayDesk() : RelayDesk(Budget()) {}
  explicit RelayDesk(Budget budget) : budget_(budget) {}

  // To be said to the ends of a stripe.
  struct Notice {
    Wire to;
    RelayState state;
  };
  // `from`'s wire for a stripe with `peer`, new or attached again. What both ends are to be told is
  // appended; true: the other end is not there and should be called.
  bool Attach(Instant now, const NodeId& from, const Wire& wire, const RelayAttach& attach,
              std::vector<Notice>& out);

  // Where to forward a part of so many sealed bytes; it counts as under way then. nullopt: refused,
  // since it is over budget, or this wire is not the sender's for that stripe and peer, or the
  // other end is not there.
  std::optional<Wire> Forward(const NodeId& from, const Wire& wire, const RelayData& data);
  // `from` wants to be introduced to the other end of its wire of control: which that is. nullopt:
  // nobody is there, or it was a moment ago.
  std::optional<Wire> Meet(Instant now, const NodeId& from, const Wire& wire, const NodeId& peer);
  // It could not be sent after all.
  void TakeBack(const Wire& to, int64_t bytes);
  // More than was forwarded to the wire counts as that.
  void OnGot(const NodeId& from, const Wire& wire, int64_t bytes);

  // The connection is gone; the other end is told.
  void Drop(const Wire& wire, std::vector<Notice>& out);
  // The node is not admitted any more.
  void Forget(const NodeId& node, std::vector<Notice>& out);
  void DropSilent(Instant now, std::vector<Notice>& out);

  size_t wires() const { return wires_.size(); }
  size_t pairs() const { return pairs_.size(); }
  int64_t under_way_bytes() const { return under_way_bytes_; }
  int64_t forwarded_bytes() const { return forwarded_bytes_; }
  int64_t refused() const { return refused_; }

 private:
  using Pair = std::pair<NodeId, NodeId>;            // ordered
  using End = std::tuple<NodeId, NodeId, uint16_t>;  // whose, with whom, stripe
  struct Attached {
    NodeId from, peer;
    uint16_t stripe = 0;
    Instant said;
    std::optional<Instant> met;
    int64_t sent = 0, got = 0;  // to this wire
  };
  struct PairUse {
    size_t wires = 0;
    int64_t under_way = 0;
  };
  static Pair PairOf(const NodeId& a, const NodeId& b) { return a < b ? Pair{a, b} : Pair{b, a}; }
  const Wire* OtherEnd(const Attached& attached) const;
  void Free(Attached& attached, int64_t bytes);

  Budget budget_;
  std::map<Wire, Attached> wires_;
  std::map<End, Wire> ends_;
  std::map<Pair, PairUse> pairs_;
  int64_t under_way_bytes_ = 0;
  int64_t forwarded_bytes_ = 0;
  int64_t refused_ = 0;
};

}  // namespace skerry
