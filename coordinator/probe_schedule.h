// Which ordered pairs of nodes are measured before the plan, and which of them now.
//
// Every pair in a fleet of up to kWholeFleet nodes. In a larger one each node is measured, both
// ways, with its two neighbours on each of kRings rings, each in an order of hashed ids of its own:
// partners have nothing to do with geography, everybody has equally many, a node that comes or goes
// changes those of its neighbours only, and any two nodes are few measured links apart, without
// which no map of the fleet can be drawn. The other links are predicted (routing/link_estimator.h).
//
// A node is in one probe at a time, so that no reading disturbs another. Pairs that did not answer
// come last; after kUnansweredMax times in vain a pair is settled: there is no link. A reading that
// the others contradict is asked for once or twice more (MeasureAgain): with kRepeatsMax repeats it
// is believed if all agree, and outvoted if it was a slip (routing/link_estimator.h).
//
// Pure: no clock, no messages. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"

namespace skerry {

class ProbeSchedule {
 public:
  static constexpr size_t kWholeFleet = 40;
  static constexpr uint64_t kRings = 8;
  static constexpr Duration kPatience = Duration::Seconds(10);
  static constexpr int32_t kUnansweredMax = 3;
  static constexpr int32_t kRepeatsMax = 2;

  using Pair = std::pair<NodeId, NodeId>;  // from, target

  // `at_once`: probes in the whole fleet; 0: as many as there are disjoint pairs.
  explicit ProbeSchedule(size_t at_once) : at_once_(at_once) {}

  // Who can be measured now. Probes of others are over.
  void SetNodes(const std::set<NodeId>& nodes);
  // A reading that is known already, from the journal.
  void NoteMeasured(const Pair& pair);

  // Probes to request now; they count as asked. Looks at the whole fleet.
  std::vector<Pair> Next(Instant now);
  // Measures these once more, first come first served: of the pairs whose ends are idle. Those that
  // are to be asked.
  std::vector<Pair> Again(const std::vector<Pair>& pairs, Instant now);
  // A reading came. False: nobody asked for it. `next`: probes that its end makes possible.
  bool Answered(const Pair& pair, Instant now, std::vector<Pair>& next);
  // Ends probes that nobody answered in time; those that are now settled without a reading.
  std::vector<Pair> GiveUp(Instant now);
  // What was settled in vain is to be settled once more.
  void AskAgain();
  // A pair that was measured is to be measured once more. False: not this one, or not again.
  bool MeasureAgain(const Pair& pair);
  // The process of this node was replaced: its probes are void.
  void Forget(const NodeId& node);

  // How often it was asked in vain.
  int32_t Unanswered(const Pair& pair) const;
  // Every pair that is to be measured is settled.
  bool Complete() const { return unsettled_ == 0; }
  // Pairs still to settle, and those there are in all.
  size_t unsettled() const { return unsettled_; }
  size_t pairs() const { return pairs_; }

 private:
  struct Node {
    std::set<NodeId> partners;
    std::set<NodeId> left;  // targets that are not settled
    bool busy = false;
  };

  void AddRing(uint64_t ring);
  void Start(const NodeId& from, Instant now, std::vector<Pair>& out);
  void StartWith(const NodeId& node, Instant now, std::vector<Pair>& out);
  void Ask(const Pair& pair, Instant now, std::vector<Pair>& out);
  bool AtLimit() const { return at_once_ > 0 && running_.size() >= at_once_; }
  bool IsSettled(const Pair& pair) const;
  void Settle(const Pair& pair);
  void End(const Pair& pair);

  size_t at_once_;
  std::map<NodeId, Node> nodes_;
  std::set<Pair> measured_;
  std::map<Pair, int32_t> unanswered_;
  std::map<Pair, int32_t> repeated_;
  std::map<Pair, Instant> running_;  // since when
  size_t unsettled_ = 0;
  size_t pairs_ = 0;
};

}  // namespace skerry
