// From single readings to a matrix the planner may believe.
//
// Per direction: the median of the last kReadingsMax readings, with its spread. Then hygiene,
// because one published table has a link 1000 × too slow by a slip of units, and a planner that
// believes it plans for a network that does not exist:
//   rate   log(rate) is regressed on log(rtt) over the fleet (Theil–Sen: medians, so a few slips do
//   not
//          bend it). A reading is suspect only if it lies more than kSuspectLog away from *each*
//          of: the regression, the regression corrected by the median residual of the sender's
//          other links, of the receiver's other links, and of both. So a slow uplink (a whole row)
//          or a far region (long round trips) is no cause for doubt, one odd link is.
//   rtt    is nearly symmetric and nearly a metric: suspect if it lies more than kSuspectLog above
//   the
//          median detour over third nodes, or that far below the median of the differences that
//          a triangle cannot undercut (short round trips below kRttFloor are never suspect).
// A suspect link is replaced by what the others predict and flagged; it is believed after all once
// kBelieveAfter readings agree within a factor of two.
// Directions never read are taken from the opposite one, else predicted likewise (round trips where
// few third nodes were measured: network_coordinates.h); a node of which
// nothing was ever read keeps missing links, and so has a link whose last probe went unanswered.
//
// Not thread-safe. Bounds: kReadingsMax per ordered pair.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/instant.h"
#include "routing/access_lines.h"
#include "routing/topology.h"

namespace skerry {

class LinkEstimator {
 public:
  static constexpr size_t kReadingsMax = 16;
  static constexpr int32_t kBelieveAfter = 3;
  static constexpr double kSuspectLog = 2.0;   // a factor of 7.4: less than bits taken for bytes
  static constexpr double kTornSpread = 0.25;  // two readings a factor of three apart
  static constexpr double kRttFloor = 0.005;   // s
  static constexpr double kUneven = 1.15;      // of near links, Doubtful

  // One directed reading. InvalidArgument, and nothing changes: a value is not finite, rtt < 0,
  // rate ≤ 0, or from == to.
  absl::Status Add(const NodeId& from, const NodeId& to, double rtt_s, double bytes_per_s,
                   Instant at);
  // What the run's own traffic has shown to pass: slower readings were of a share of the line, or
  // of a window that was still small, and count no more. As Add.
  absl::Status AddShown(const NodeId& from, const NodeId& to, double rtt_s, double bytes_per_s,
                        Instant at);
  // A probe of this direction got no answer; undone by the next reading.
  void AddUnanswered(const NodeId& from, const NodeId& to);

  // Who shares a line, for the matrices below.
  void AddLine(const LineFinding& finding);

  // Estimates for these nodes (ascending).
  LinkMatrix Estimate(const std::vector<NodeId>& nodes, Instant now) const;

  // What this direction's own readings say, nothing else; `readings` 0 where there are none.
  LinkEstimate Read(const NodeId& from, const NodeId& to, Instant now) const;

  // Ordered pairs that were read fewer than kBelieveAfter times and are not believed, or whose
  // readings contradict each other: who asks again finds out. With `uneven` also those near
  // (below kRttFloor) that are slower than the way back or than most near links of their ends: of a
  // fast transfer between near machines what holds these up is a large part. Of these nodes,
  // ascending.
  std::vector<std::pair<NodeId, NodeId>> Doubtful(const std::vector<NodeId>& nodes, Instant now,
                                                  bool uneven = false) const;

  // Ordered pairs worth probing again: suspect, predicted or unanswered; of these nodes, ascending.
  std::vector<std::pair<NodeId, NodeId>> WorthMeasuring(const std::vector<NodeId>& nodes,
                                                        Instant now) const;

 private:
  struct Reading {
    double rtt_s = 0;
    double bytes_per_s = 0;
    Instant at;
  };
  struct History {
    std::deque<Reading> readings;
    bool unanswered = false;
  };
  using Pair = std::pair<NodeId, NodeId>;

  static LinkEstimate MedianOf(const History& history, Instant now);

  std::map<Pair, History> histories_;
  std::vector<LineFinding> lines_;
};

}  // namespace skerry
