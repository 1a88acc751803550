// A stage's table of codecs for later rounds: who may be in it, what replicas say, what is chosen.
//
// Every OuterConfig::budget_rounds rounds, beginning with the first, each replica measures its
// delta at the boundary and says what each codec would take and lose for each tensor
// (DeltaStatistics). The coordinator adds that up over the round's participants in node order and
// chooses once; the commit of the round names the table. It is in force TableLag rounds later:
//
//   overlap, …   a replica encodes v + 1 after v has landed          lag 1
//   co2          it encodes v + 1 before it takes the step of v      lag 2
//
// so whoever encodes knows its table. Who is sent a message of round r waits for the commit of
// r − lag before it looks at it. Pure functions, any thread; docs/decisions/0021-codec-tables.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "compression/codec_table.h"
#include "compression/low_rank.h"
#include "localsgd/piece_cut.h"
#include "model/parameter_layout.h"
#include "wire/message/message.h"

namespace skerry {

// Sparse ones only where what is not sent stays in the weights: in a buffer they diverged
// (docs/OUTER_STEPS.md); top-k only in runs of at least so many rounds.
inline constexpr DeltaCodec kTableCodecs[] = {DeltaCodec::kInt8, DeltaCodec::kInt4,
                                              DeltaCodec::kTernary};
inline constexpr DeltaCodec kTableCodecsInWeights[] = {DeltaCodec::kSign, DeltaCodec::kTopK};
inline constexpr int64_t kTableTopKRoundsMin = 256;

// The codecs that tables of a run choose among: the above, and the one that the operator named.
std::vector<DeltaCodec> TableCodecs(const RunConfig& config);

// The matrices of a stage, for low rank.
MatrixShape ShapeOf(const ParameterLayout& layout);

// The parts of a stage's tables: its tensors (PartsOf), neighbours joined where there are more than
// kTablePartsOnWireMax.
std::vector<int64_t> TableParts(const ParameterLayout& layout);

inline bool HasBudget(const OuterConfig& outer) {
  return outer.budget != CodecBudget::kNone;
}
// Whether replicas measure at this round's boundary.
inline bool MeasuresRound(const OuterConfig& outer, int64_t round) {
  return HasBudget(outer) && round % outer.budget_rounds == 0;
}
// The table named by the commit of round v is for messages of rounds ≥ v + lag.
inline int64_t TableLag(const OuterConfig& outer) {
  return outer.mode == OuterMode::kCo2 ? 2 : 1;
}

// Without stage and round.
DeltaStatistics SaidOf(const PartStatistics& statistics);

// What a replica said, as numbers that can be. InvalidArgument says which are not: another count,
// bytes that no message of the codec has, errors that are negative, not finite or beyond any delta.
absl::StatusOr<PartStatistics> HeardOf(const DeltaStatistics& said, std::span<const int64_t> parts,
                                       std::span<const DeltaCodec> codecs);

struct RoundTable {
  CodecTable table = {};
  double bits = 0;              // of a parameter and message, headers counted
  double error_ratio = 0;       // relative to that of config.outer.codec for all
  bool is_over_budget = false;  // fewer bits are not to be had
};

// The table for the statistics of a round's participants, in their order: one of `config`'s
// budget, or if that is below what any table takes, the one of fewest bytes. `cut` as of the
// stage's messages. InvalidArgument: no statistics, or of different shapes.
absl::StatusOr<RoundTable> ChooseRoundTable(const RunConfig& config, std::span<const int64_t> parts,
                                            const PieceCut& cut,
                                            std::span<const PartStatistics> statistics);

}  // namespace skerry
