// What a replica holds of outer rounds: everybody's encoded deltas, and the coordinator's frozen
// sets.
//
// A round may be used when its commit is here and every participant's delta is held with the digest
// the commit names. Idempotent: what is known already changes nothing. Bounded: only rounds in
// [next, next + rounds ahead] are held.
//
// Of a sharded round (pipeline/plan/round_shape.h) it holds the pieces that others sent it to sum,
// the own ones, and everybody's sums of each shape the round has had since it began: a commit names
// one that every holder has reported, the latest. A round may be used when the sums of that shape
// are held with the digests the commit names. All is kept until the round lands, or it could not be
// reduced again when a participant dies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "pipeline/exec/stage_work.h"
#include "pipeline/plan/round_shape.h"
#include "wire/message/message.h"

namespace skerry {

// How many rounds the message of a participant covers (RoundCommit::covered).
int32_t CoveredBy(const RoundCommit& commit, const NodeId& participant);

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

  // Refuses what is held and does not decode: what came before it could be looked at. Returns what
  // to tell the coordinator.
  using Decodes = std::function<bool(const Delta& delta)>;
  std::vector<DeltaHeld> RefuseUnless(const Decodes& decodes);

  // An own delta that others made too, bit for bit: what counts of any of them counts as own, where
  // it has that digest. In a sharded round it has no payload, and the digest is that of its pieces.
  void Share(const Delta& delta, const std::vector<NodeId>& with);
  struct Shared {
    Delta delta;
    std::vector<NodeId> with;
  };
  std::vector<Shared> SharedNow() const;  // of rounds not applied
  // What was held in the names of others because it was made here too, of rounds not frozen: it may
  // not be theirs. They send it.
  void ForgetShared();
  // nullptr: it is not here, or none that can be decoded.
  const Delta* DeltaOf(const NodeId& sender, int64_t round) const;
  // Those of others that are held, of rounds not applied; refused ones not.
  std::vector<std::pair<NodeId, Delta>> OthersNow() const;

  // Learns the frozen set. False if the round is over, too far ahead, of another stage or
  // contradicts an earlier commit.
  bool Commit(const RoundCommit& commit);
  const RoundCommit* CommitOf(int64_t round) const;  // nullptr: none yet

  bool Ready(int64_t round) const;

  // The participants' messages in the commit's order. Call only when Ready(round).
  std::vector<StageWork::Accepted> Participants(int64_t round) const;

  // ---- sharded rounds (round_keeper_sharded.cc) ----

  // Whether pieces or sums of that round may still be held.
  bool IsAhead(int64_t round) const { return round >= next_ && round <= next_ + rounds_ahead_; }
  // The own delta: [pieces of the stage].
  void HoldOwn(int64_t round, int64_t tokens, std::vector<Payload> pieces);
  // Pieces of the sender's delta; those known already stay what they are. False: too old or too far
  // ahead.
  bool HoldPieces(const NodeId& sender, int64_t round, int64_t tokens, std::vector<Piece> pieces);
  // Of the sender's delta something cannot be decoded: true the first time.
  bool RefusePieces(const NodeId& sender, int64_t round);
  // What is to be summed of these pieces, when every participant's are held.
  std::optional<StageWork::Reduction> ReductionOf(int64_t round,
                                                  const std::vector<NodeId>& participants,
                                                  const std::vector<int32_t>& pieces) const;
  // A sum of this shape, `pieces` what it is unpacked. False: known, too old, too far ahead.
  bool HoldSum(const NodeId& reducer, const DeltaSum& sum, const RoundShape& shape,
               std::vector<Piece> pieces);
  // As RefuseUnless, of sums: the rounds in which one was refused. What it says has no digest.
  using AreSums =
      std::function<bool(int64_t round, const RoundShape& shape, const std::vector<Piece>& sums)>;
  std::set<int64_t> RefuseSumsUnless(const AreSums& are_sums);
  // The own sum of that shape; nullptr: not made yet.
  const DeltaSum* OwnSum(int64_t round, uint64_t shape) const;
  // Another's of that shape; nullptr: it is not here.
  const DeltaSum* SumOf(const NodeId& reducer, int64_t round, uint64_t shape) const;
  // Of that shape, by reducer.
  std::map<NodeId, DeltaSum> SumsNow(int64_t round, uint64_t shape) const;
  // What to tell the coordinator, when all sums of that shape are held.
  std::optional<SumsHeld> AllSums(int64_t round, uint64_t shape) const;
  // For StageWork::ApplySums of a stage of so many pieces. Call only when Ready(round).
  // InvalidArgument: the sums are not all pieces, each once.
  absl::StatusOr<StageWork::Landing> LandingOf(int64_t round, int32_t pieces) const;
  // Own pieces of rounds not applied yet, to send those again that another has to sum now.
  struct OwnPieces {
    int64_t round = 0;
    int64_t tokens = 0;
    std::vector<Payload> pieces;
  };
  std::vector<OwnPieces> OwnOfRounds() const;
  std::vector<DeltaHeld> RefusedNow() const;
  bool HasCommit(int64_t round) const;

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
  // Of `nodes`, whose delta of the round is not here; of a sharded round, whose `pieces`.
  std::vector<NodeId> LackingOf(int64_t round, const std::vector<NodeId>& nodes,
                                const std::vector<int32_t>& pieces) const;
  // Of the participants of that shape, whose sums are not here.
  std::vector<NodeId> LackingSums(int64_t round, const RoundShape& shape) const;
  // "commit of round 3" or "delta of 12ab in round 3", for people.
  std::string Missing(int64_t round) const;

 private:
  struct Pieces {
    int64_t tokens = 0;
    std::map<int32_t, Payload> pieces;
    bool is_refused = false;
  };
  struct Sum {
    DeltaSum message;
    std::vector<Piece> pieces;
  };
  struct Sums {
    RoundShape shape;
    std::map<NodeId, Sum> by_reducer;
  };
  struct Round {
    std::map<NodeId, Delta> deltas;
    std::optional<Shared> shared;
    std::optional<RoundCommit> commit;
    std::map<NodeId, Pieces> pieces;  // by sender
    std::map<uint64_t, Sums> by_shape;
  };
  bool IsOwn(const Round& round, const NodeId& participant, const Digest& message) const;
  bool SumsReady(const Round& round) const;
  std::string MissingSum(const Round& held, int64_t round) const;
  void NoteHeld(int64_t more_bytes);
  int64_t HeldBytes() const;
  bool IsWanted(const NodeId& sender, const Delta& delta);

  int32_t stage_;
  NodeId self_;
  int64_t next_;
  int64_t rounds_ahead_;
  std::map<int64_t, Round> rounds_;
  int64_t held_bytes_ = 0;
  int64_t held_bytes_peak_ = 0;
};

}  // namespace skerry
