// What a round asks of the links of a stage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/backward_cut.h"
#include "common/round_clock.h"
#include "routing/cost_model.h"
#include "routing/delta_bits.h"
#include "routing/placement.h"
#include "routing/stage_traffic.h"

namespace skerry {

// What all others of a sharded round are sent together, in deltas: its pieces and the sums.
inline double ShardedDeltas(const OuterConfig& outer) {
  return 1 + SumBitsOf(outer) / DeltaBitsOf(outer);
}

// Bytes that a replica sends to each of the others of its stage in a round: its whole delta, or in
// a sharded round its pieces of the other's part and the sum of its own. With cohorts "replica" is
// a speaker.
inline double RoundBytesToEach(const RunConfig& config, int32_t layers, bool holds_ends,
                               size_t replicas) {
  const auto delta = static_cast<double>(DeltaBytes(config, layers, holds_ends));
  if (!IsSharded(config.outer, static_cast<int64_t>(replicas))) return delta;
  return delta * ShardedDeltas(config.outer) / static_cast<double>(replicas);
}

// Of one stage more. How many of its replicas speak only its placement says (OuterTraffic).
inline void ChargeRounds(const RunConfig& config, int32_t layers, bool holds_ends,
                         OuterTraffic* outer) {
  const auto delta = static_cast<double>(DeltaBytes(config, layers, holds_ends));
  outer->delta_boundaries.push_back(delta / static_cast<double>(BoundaryBytes(config)));
  outer->sharded_deltas = ShardedDeltas(config.outer);
  for (size_t speakers = 1; speakers <= kAllToAllMax + 1; ++speakers) {
    if (!IsSharded(config.outer, static_cast<int64_t>(speakers))) continue;
    outer->sharded_from = speakers;
    break;
  }
}

// Of the gradients that the members of a cohort sum every step: float32, whatever is computed in.
inline double GradientBytes(const RunConfig& config, int32_t layers, bool holds_ends) {
  return sizeof(float) * static_cast<double>(StageParameters(config.model, layers, holds_ends));
}

// The parts in which two of them sum these, as a node cuts them (model/backward_parts.h). What a
// pass computes is its layers'; the head's part of it is the loss's.
inline std::vector<SumPart> SumPartsOf(const RunConfig& config, int32_t layers, bool holds_ends) {
  const TransformerConfig& model = config.model;
  const int64_t table = holds_ends ? int64_t{model.vocab} * model.hidden : 0;
  const int64_t size = StageParameters(model, layers, holds_ends);
  std::vector<int64_t> offsets;
  for (int32_t layer = 0; layer < layers; ++layer)
    offsets.push_back(table + layer * LayerParameters(model));
  std::vector<SumPart> parts;
  for (const BackwardPart& part : CutBackward(offsets, size, 0, kBackwardPartMin, model.ladder)) {
    parts.push_back({static_cast<double>(part.size) / static_cast<double>(size),
                     static_cast<double>(part.down_to) / std::max(1, layers)});
  }
  return parts;
}

// Inner steps that hide the transfer of all that a replica sends in a span of τ steps: δ, in
// streaming δ for each of its P messages, but never more than the span. `outer` is settled.
inline int64_t HidingSteps(const OuterConfig& outer) {
  const int64_t fragments = FragmentsOf(outer);
  return fragments == 1 ? outer.overlap_steps
                        : std::min(outer.inner_steps, fragments * outer.overlap_steps);
}

}  // namespace skerry
