// Deltas, or sums of sharded rounds, that one replica hands to another which does not hear their
// sender, in a stage with cohorts (docs/PROTOCOL.md, "A cohort"; docs/decisions/0058-clusters.md):
// who is asked for what, and who asked this node.
//
// A round is frozen when everybody holds everything, so two that do not hear each other would hold
// their stage up as long as that lasts. Others hold what they lack.
//
// Pure; not thread-safe. Bounded: as many rounds as a replica holds deltas of, kAskersMax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace skerry {

class PassingOn {
 public:
  static constexpr size_t kAskersMax = 1024;  // each of one delta

  // Whom this node does not hear, until it hears it again.
  void Lost(const NodeId& node) { silent_.insert(node); }
  void Heard(const NodeId& node) {
    if (!silent_.empty()) silent_.erase(node);
  }
  bool HearsAll() const { return silent_.empty(); }
  bool IsSilent(const NodeId& node) const { return silent_.contains(node); }

  // ---- as who lacks a delta ----

  bool HasAsked(const NodeId& sender, int64_t round) const {
    return asked_.contains({round, sender});
  }
  // Whether this node has asked that one for it.
  bool HasAsked(const NodeId& whom, const NodeId& sender, int64_t round) const;
  // Whom to ask next, each in turn and then from the beginning; it is noted as asked. nullopt: of
  // the candidates there is none who is heard, but for the sender.
  std::optional<NodeId> AskNext(const NodeId& sender, int64_t round,
                                const std::vector<NodeId>& candidates);

  // ---- as who is asked ----

  // False: it has asked before, or too much is asked.
  bool Wants(const NodeId& asker, const NodeId& sender, int64_t round);
  // Who is to be given the delta, now that it is here; each once.
  std::vector<NodeId> TakeAskers(const NodeId& sender, int64_t round);
  // What was given may be of no use any more: sums are of one shape of a round.
  void GiveAgain();

  // Rounds below are over.
  void ForgetBelow(int64_t round);

 private:
  using Key = std::pair<int64_t, NodeId>;  // round, sender

  std::set<NodeId> silent_;
  struct Asked {
    std::set<NodeId> whom;
    size_t times = 0;
  };
  std::map<Key, Asked> asked_;
  std::map<Key, std::map<NodeId, bool>> askers_;  // and whether it was given
  size_t askers_count_ = 0;
};

}  // namespace skerry
