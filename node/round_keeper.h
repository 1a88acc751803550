// What a replica holds of outer rounds: everybody's encoded deltas, and the coordinator's frozen
// sets.
//
// A round may be used when its commit is here and every participant's delta is held with the digest
// the commit names. Idempotent: what is known already changes nothing. Bounded: only rounds in
// [next, next + rounds ahead] are held.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "pipeline/exec/stage_work.h"
#include "wire/message/message.h"

namespace skerry {

class RoundKeeper {
 public:
  // A peer needs our delta of a round to pass it, so it is at most one round ahead.
  static constexpr int64_t kRoundsAhead = 2;
  // A joiner holds what is committed while it is given the state of its stage.
  static constexpr int64_t kJoinersRoundsAhead = 64;

  RoundKeeper(int32_t stage, NodeId self, int64_t next = 0, int64_t rounds_ahead = kRoundsAhead)
      : stage_(stage), self_(self), next_(next), rounds_ahead_(rounds_ahead) {}

  // Holds a delta. Returns what to tell the coordinator; nothing if it is known, too old, too far
  // ahead or altered.
  std::optional<DeltaHeld> Hold(const NodeId& sender, const Delta& delta);

  // Remembers that a delta cannot be decoded; as Hold, but what it says has no digest.
  std::optional<DeltaHeld> Refuse(const NodeId& sender, const Delta& delta);

  // Learns the frozen set. False if the round is over, too far ahead, of another stage or
  // contradicts an earlier commit.
  bool Commit(const RoundCommit& commit);

  bool Ready(int64_t round) const;

  // The participants' messages in the commit's order. Call only when Ready(round).
  std::vector<StageWork::Accepted> Participants(int64_t round) const;

  // The round was applied: earlier rounds and this one are forgotten.
  void Applied(int64_t round);

  // A base of that version is here: rounds below are forgotten. CHECK: not below next().
  void SkipTo(int64_t version);

  int64_t next() const { return next_; }  // the first round not applied
  // The most that deltas took.
  int64_t held_bytes_peak() const { return held_bytes_peak_; }
  // Everything held of rounds not applied, to say again to a coordinator that restarted.
  std::vector<DeltaHeld> HeldNow() const;
  // Own deltas not applied yet, to send again to a replica.
  std::vector<Delta> Own() const;
  // "commit of round 3" or "delta of 12ab in round 3", for people.
  std::string Missing(int64_t round) const;

 private:
  struct Round {
    std::map<NodeId, Delta> deltas;
    std::optional<RoundCommit> commit;
  };
  bool IsWanted(const NodeId& sender, const Delta& delta);

  int32_t stage_;
  NodeId self_;
  int64_t next_;
  int64_t rounds_ahead_;
  std::map<int64_t, Round> rounds_;
  int64_t held_bytes_peak_ = 0;
};

}  // namespace skerry
