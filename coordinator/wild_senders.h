// Who is put out because robust means leave its deltas out, round after round
// (docs/decisions/0020-robust-means.md). Pure.
//
// One replica's word counts for nothing: of a sharded round each is the only witness of its own
// pieces. What more than half of a round's other participants say counts.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/run_state.h"

namespace skerry {

// In so many rounds in a row of those that it took part in. A message of several rounds is long
// without being wild: such rounds do not count, nor for nor against it.
inline constexpr int kWildRounds = 3;

// As of a round that all its participants have applied, so far as they live.
std::vector<NodeId> WildSenders(const RunState& state, int32_t stage, int64_t round);

}  // namespace skerry
