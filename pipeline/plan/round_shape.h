// Who sums what in a sharded round (docs/PROTOCOL.md, "A sharded round"): pure functions of the
// plan, so that all replicas of a stage agree without talking.
//
// The *shape* of a round is the set of its participants, each of them the reducer of a part. A plan
// that changes nothing about them leaves it as it is; a death among them gives another. Sums are of
// one shape, and a round is committed with the sums of one.
//
// Pieces (localsgd/piece_cut.h) have a home: slots in order, in proportion to their shares. Those
// of a slot that takes no part are spread over the others, so a death moves no piece but the dead
// one's.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run_config.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// Whether a stage's rounds are sharded: a property of its slots, the same in all of a plan's
// versions. With cohorts `auto` asks how many speak, which changes when one parts, so it is asked
// once, and shares say so (reducer_shares.h).
bool IsShardedStage(const RunConfig& config, const StageAssignment& stage);

struct RoundShape {
  std::vector<NodeId> participants;  // in slot order
  uint64_t id = 0;                   // digest of them and of their slots; never 0
  bool operator==(const RoundShape&) const = default;
};
RoundShape ShapeOf(const PipelinePlan& plan, int32_t stage, int64_t round);

// The reducer of every piece, [pieces]. CHECK: the shape has participants and is one of `stage`.
std::vector<NodeId> ReducersOf(const StageAssignment& stage, const RoundShape& shape,
                               int32_t pieces);

// What a replica's message of a round may cover, in tokens: all that the round trains on, some of
// it again after deaths and detours. Tokens weigh its delta, so nobody may say what he likes.
// `config` is settled.
int64_t RoundTokensMax(const RunConfig& config, const PipelinePlan& plan);

}  // namespace skerry
