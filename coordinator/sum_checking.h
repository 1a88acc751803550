// Sums of sharded rounds that are being checked (ops_sum_checks.cc); of this life of the
// coordinator.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/coordinator_actor.h"
#include "coordinator/sum_proofs.h"

namespace skerry {

struct CoordinatorActor::SumChecking {
  // What a reducer has left over may go on otherwise than it said, unexcused, twice in so many
  // rounds: what would have excused it may have been lost with another node.
  static constexpr size_t kBreaksMax = 2;
  static constexpr int64_t kBreaksWithin = 16;
  // And it may not be able to show its sums so many times in a row.
  static constexpr int kNotShownMax = 2;

  using Key = std::tuple<int32_t, int64_t, NodeId>;  // stage, round, reducer
  struct Open {
    SumCheck check;
    std::vector<int32_t> own;  // the pieces that the reducer sums
    std::shared_ptr<const std::map<NodeId, SumsHeld>> statements;  // of the round
    Instant since;
    // By the checker, or that it is silent: the coordinator follows the sum itself.
    std::optional<SumVerdict> accusation = {};
    size_t later = 0;  // drawn of the same reducer since

    SumProof ProofOf(const NodeId& liar, const char* found) const {
      return {liar, found, check, own, *statements};
    }
  };
  struct Judging {
    Key key;
    std::shared_ptr<SumVerdict> verdict;
  };
  struct Said {  // in the last round of a fragment
    int64_t round = 0;
    int64_t plan_version = 0;
    std::map<NodeId, std::vector<PieceState>> states;
  };

  std::map<Key, Open> open;
  std::map<JobId, Judging> judging;
  std::map<std::pair<int32_t, int32_t>, Said> said;                 // by stage and fragment
  std::map<std::tuple<int32_t, NodeId, int32_t>, int> handed_on;    // stage, to, piece: how often
  std::map<NodeId, std::deque<int64_t>> breaks;                     // rounds
  std::map<NodeId, int> not_shown;                                  // in a row
  std::map<std::pair<int32_t, NodeId>, std::set<NodeId>> disputes;  // who says another was sent
  std::map<NodeId, std::string> condemned;                          // put out at the next duty
  int64_t checked = 0;

  // Who says what against whom; `actor` is whose this is.
  static bool Draw(CoordinatorActor& actor, Context& context, const RoundCommit& commit,
                   SumCheck* check);
  void CompareStates(CoordinatorActor& actor, Context& context, const RoundCommit& commit);
  void NoteDispute(CoordinatorActor& actor, Context& context, const SumCheck& check,
                   const std::vector<Participant>& summed);
  void FindSilent(const RoundCommit& commit, const std::map<NodeId, SumsHeld>& held,
                  const NodeId& reducer);
  // Before the reducer is told of another: soon it has no more to show of an older one.
  void DoubtForgotten(Context& context, const NodeId& reducer);
  static void Accuse(Context& context, Open& doubted, SumVerdict verdict);
  void Judge(CoordinatorActor& actor, Context& context, const Open& doubted, SumVerdict found);
};

}  // namespace skerry
