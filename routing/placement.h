// Which node fills which slot of a logical plan: simulated annealing on the evaluated time of a
// step.
//
// Joint with the paths, unlike SkipPipe (which places for the unskipped pipeline, arXiv
// 2502.19913): every candidate is scored by running the very paths of the plan. Moves: exchange the
// nodes of two slots, or of three in a cycle. The temperature falls geometrically over the budget,
// which counts evaluations and not time, so that equal input gives an equal placement everywhere.
// The best placement seen is returned: never worse than the start. Up to kAllRankedSlots slots all
// placements are ranked by a bound instead, and tried until the bound exceeds the best
// (promising_placements.h). Else it begins with the best of what
// even_placement.h and coarse_placement.h find on round trips alone; from 128 slots on only the
// latter. Of placements alike in time the one with nearer pairs is taken.
//
// With cohorts (stage_traffic.h) their rings and the deltas of their speakers count, placements by
// rooms (room_placement.h) are looked at first, and a third kind of move exchanges what two stages
// have in two rooms: each of its exchanges alone makes a speaker more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "routing/evaluator.h"
#include "routing/round_cost.h"
#include "routing/stage_traffic.h"

namespace skerry {

// Deltas that replicas of a stage send each other every τ inner steps, hidden behind δ of them.
struct OuterTraffic {
  // Per stage: a whole delta / bytes of a boundary payload. It goes to each of the others that
  // speak, which with cohorts the placement says; from so many speakers on parts of it do.
  std::vector<double> delta_boundaries;
  size_t sharded_from = std::numeric_limits<size_t>::max();
  double sharded_deltas = 1;  // then for all together: pieces, and sums of the own part
  int64_t inner_steps = 1;    // τ ≥ 1
  int64_t overlap_steps = 0;  // δ
  int64_t fragments = 1;      // in each of which τ steps have a round, of such a part of the bytes

  RoundAmounts ToEach(size_t stage, size_t speakers) const {
    const double delta = delta_boundaries[stage];
    if (speakers < sharded_from) return {delta, 0};
    const double part = delta / static_cast<double>(speakers);
    return {part, part * (sharded_deltas - 1)};
  }
};

struct PlacementProblem {
  Workload workload;
  Fleet fleet;
  OuterTraffic outer;
  NearNodes near;  // off: each replica speaks for itself
  // [stages, n] the node has the memory for a slot of the stage; empty: all have.
  std::vector<uint8_t> fits;
  std::shared_ptr<const NodeLines> lines = nullptr;  // of the fleet; nullptr: not worked out yet
};

// kQuick: two starts instead of nine, found with a tenth of the exchanges.
enum class PlacementEffort : uint8_t { kFull, kQuick };

struct PlacementOptions {
  uint64_t seed = 1;
  int32_t evaluations = 4000;
  PlacementEffort effort = PlacementEffort::kFull;
};

struct PlacementResult {
  Placement placement;
  double step_s = 0;     // evaluated; infinite if no placement with usable links was found
  double ring_s = 0;     // of that: the slowest cohort's ring
  double exposed_s = 0;  // outer traffic that is not hidden, per step
  double distance = 0;   // of all ways of its microbatches, root seconds of latency
  int32_t evaluations = 0;
  double total_s() const { return step_s + exposed_s; }
};

// Seconds per step by which the slowest delta exchange exceeds what δ steps of `step_s` hide.
double ExposedSeconds(const PlacementProblem& problem, const Placement& placement, double step_s);

// Node `node` has the memory for slot `slot`.
bool Fits(const PlacementProblem& problem, int32_t slot, int32_t node);

// The same for the whole of a placement.
bool Fits(const PlacementProblem& problem, const Placement& placement);

// `start` fits the memory of its nodes. As many slots as nodes.
PlacementResult Place(const PlacementProblem& problem, const Placement& start,
                      const PlacementOptions& options);

}  // namespace skerry
