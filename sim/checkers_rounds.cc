// rounds_atomic: what everybody had said when a round was committed.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "pipeline/plan/round_shape.h"
#include "pipeline/plan/route.h"
#include "sim/checkers.h"

namespace skerry {

void Checkers::Check(Instant, const NodeId& from, const DeltaHeld& held) {
  held_[{held.stage, held.round}][from][held.sender] = held.digest;
}

void Checkers::Check(Instant, const NodeId& from, const SumsHeld& held) {
  Sums& said = sums_held_[{held.stage, held.round}][from];
  said = {held.shape, {}};
  for (const Participant& sum : held.sums) said.digests[sum.node] = sum.digest;
}

// Of the commits journalled since the last call.
void Checkers::CheckCommitRecords(Instant now) {
  if (!state().plan) return;
  for (size_t i = 0; i < state().plan->stages.size(); ++i) {
    const auto stage = static_cast<int32_t>(i);
    int64_t& round = commits_checked_[stage];
    round = std::max(round, state().plan->start.round);
    for (; round < state().RoundsCommitted(stage); ++round) {
      const RoundCommit& commit = state().commits.at({stage, round});
      if (commit.shape == 0) {
        CheckDeltasHeld(now, commit);
      } else {
        CheckSumsHeld(now, commit);
      }
      CheckOneOfCohort(now, commit);
      held_.erase({stage, round});
      sums_held_.erase({stage, round});
    }
  }
}

void Checkers::CheckDeltasHeld(Instant now, const RoundCommit& commit) {
  Holdings& held = held_[{commit.stage, commit.round}];
  for (const Participant& p : commit.participants) {
    for (const NodeId& replica : Holders(*state().plan, commit.stage)) {
      const auto holding = held[replica].find(p.node);
      if (holding != held[replica].end() && holding->second == p.digest) continue;
      Violate(now, "rounds_atomic",
              absl::StrFormat("stage %d round %d was committed although %s has not said that it "
                              "holds the message of %s",
                              commit.stage, commit.round, replica.Short(), p.node.Short()));
    }
  }
}

void Checkers::CheckSumsHeld(Instant now, const RoundCommit& commit) {
  if (ShapeOf(*state().plan, commit.stage, commit.round).id != commit.shape) {
    Violate(now, "rounds_atomic",
            absl::StrFormat("stage %d round %d was committed with sums over others than those that "
                            "take part",
                            commit.stage, commit.round));
  }
  CheckMadeByCohorts(now, commit);
  auto& held = sums_held_[{commit.stage, commit.round}];
  for (const NodeId& replica : Holders(*state().plan, commit.stage)) {
    const Sums& said = held[replica];
    for (const Participant& p : commit.participants) {
      const auto sum = said.digests.find(p.node);
      if (said.shape == commit.shape && sum != said.digests.end() && sum->second == p.digest) {
        continue;
      }
      Violate(now, "rounds_atomic",
              absl::StrFormat("stage %d round %d was committed although %s has not said that it "
                              "holds that sum of %s",
                              commit.stage, commit.round, replica.Short(), p.node.Short()));
    }
  }
}

}  // namespace skerry
