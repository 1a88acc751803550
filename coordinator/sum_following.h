// How the coordinator, and whoever holds its journal, makes a sum again from what its reducer
// showed (localsgd/sum_proof.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/fragment_cut.h"
#include "common/run_config.h"
#include "coordinator/run_state.h"
#include "localsgd/piece_reducer.h"
#include "wire/message/message.h"

namespace skerry {

// What a round concerns of a stage, and how it is cut.
struct RoundPart {
  MatrixShape shape;
  int64_t size = 0;
  PieceCut cut;

  RoundPart(const RunConfig& config, const TransformerConfig& model, const StageAssignment& stage,
            bool holds_ends, int64_t round);
};

// Everything that it takes beside what is shown; safe to hand to another thread.
struct SumFollower {
  SumCheck check;
  std::vector<int32_t> own;  // the pieces that the reducer sums
  PieceReducer fresh;        // of that stage and round, with nothing left over

  // Total; takes as long as to sum the drawn pieces twice.
  SumVerdict Follow(const Payload& shown) const;
};

// nullopt: the plan of `state` has no such stage.
std::optional<SumFollower> FollowerOf(const RunConfig& config, const TransformerConfig& model,
                                      const RunState& state, const SumCheck& check,
                                      const std::vector<int32_t>& own);

}  // namespace skerry
