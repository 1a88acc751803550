// Whose activations or gradients are larger or smaller than those of the other replicas of its
// stage (docs/PROTOCOL.md, "Sizes are watched"; docs/decisions/0063-watched-statistics.md).
//
// What passes from one node to the next is measured by both (pipeline/exec/boundary_tally.h). Only
// what they agree on counts, so that neither can say anything untrue of the other; where they do
// not, one of them lies, and who contradicts most of its partners is it.
//
// A replica is held to what it makes of what it is given, as log₂(sent) − log₂(came), against the
// median of the others; and only where what it is given is as large as what they are given. Else a
// liar's victims, whose results are odd because their input was, would be named with it.
//
// Pure and not thread-safe: no clock, no chance. One node's word takes at most kPeriods ·
// kBoundarySidesMax entries.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/ids.h"
#include "wire/message/work_message.h"

namespace skerry {

class BoundaryWatch {
 public:
  static constexpr size_t kPeriods = 6;          // of a node: the last
  static constexpr int64_t kVisitsMin = 16;      // agreed on, of each side, before it is judged
  static constexpr int64_t kDisputedMin = 8;     // visits of an edge
  static constexpr int64_t kOverdue = 4;         // periods, until who said nothing contradicts
  static constexpr double kAgreeWithin = 0.5;    // bits: int8 and attempts given up cost less
  static constexpr double kAlikeWithin = 1;      // of what replicas are given
  static constexpr double kOffMost = 2;          // a factor of four
  static constexpr double kSpreads = 4;          // and so many median distances of the others
  static constexpr int kTwice = 2, kThrice = 3;  // judgements in a row: to be named, to be no more

  enum class Is : uint8_t {
    kDisputed,  // one of two is wrong, and nobody can tell which
    kOdd,
  };
  struct Finding {
    NodeId node;
    int32_t stage = 0;
    Is is = Is::kOdd;
    std::string what;        // "activations", "gradients", "words"
    double off = 0;          // log₂ of how many times those of the others; of words 0
    std::vector<NodeId> by;  // whose word agrees with its own; of words: whose does not
  };
  struct Changes {
    std::vector<Finding> named;  // anew, or as something else
    std::vector<NodeId> settled;
  };

  // Again of the same period: that one and later ones are of a past that does not count.
  void Note(const NodeId& from, const BoundarySizes& sizes);
  // It has another stage, or none: what it said and what was said of it.
  void Forget(const NodeId& node);

  // Judges everybody with what has come, and forgets who is not there. [stages][live replicas]
  Changes Judge(const std::vector<std::vector<NodeId>>& stages);
  const std::map<NodeId, Finding>& named() const { return named_; }
  int64_t judgements() const { return judgements_; }

 private:
  using Side = std::tuple<NodeId, bool, bool>;  // other, is_gradient, was_sent
  struct Word {
    int32_t count = 0;
    double log2 = 0;
  };
  using Period = std::map<Side, Word>;
  struct Edge {
    int64_t agreed = 0, contradicted = 0;  // visits
    double log2 = 0;                       // sum over those agreed on
    bool IsDisputed() const { return contradicted > agreed && contradicted >= kDisputedMin; }
  };
  using EdgeKey = std::tuple<NodeId, NodeId, bool>;  // sender, receiver, is_gradient
  struct Flow {                                      // of one kind, over all edges of a node
    int64_t visits = 0;
    double log2 = 0;
    bool is_disputed = false;
    std::vector<NodeId> with;
    bool IsKnown() const { return visits >= kVisitsMin && !is_disputed; }
    double mean() const { return log2 / static_cast<double>(visits); }
  };
  // [is_gradient][was_sent]
  struct Flows {
    Flow of[2][2];
    std::set<NodeId> partners, contradicted_by;
  };

  void KeepOnly(const std::vector<std::vector<NodeId>>& stages);
  std::map<EdgeKey, Edge> Edges() const;
  void AddSide(std::map<EdgeKey, Edge>* edges, const NodeId& from, int64_t period, const Side& side,
               const Word& word) const;
  static std::map<NodeId, Flows> FlowsOf(const std::map<EdgeKey, Edge>& edges);
  static void FindContradicted(std::map<NodeId, Flows>* flows, std::map<NodeId, Finding>* found);
  static void FindOdd(const std::map<NodeId, Flows>& flows, const std::vector<NodeId>& replicas,
                      int32_t stage, bool is_gradient, std::map<NodeId, Finding>* found);

  std::map<NodeId, std::map<int64_t, Period>> said_;
  std::map<NodeId, Finding> named_;
  std::map<NodeId, int> in_a_row_;  // > 0: found and not named; < 0: named and not found
  int64_t judgements_ = 0;
};

// "odd", "disputed".
const char* NameOf(BoundaryWatch::Is is);

}  // namespace skerry
