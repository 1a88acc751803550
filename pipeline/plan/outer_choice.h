// Chooses what run.toml leaves open of the outer rounds, so that their traffic is hidden: δ
// (overlap_steps = −1), the codec of deltas (tier = auto), τ (inner_steps = 0).
//
// A replica sends each of the R − 1 others of its stage its encoded delta, or from four replicas on
// a part of it and a part of the sum (round_bytes.h; docs/decisions/0004 and 0017), in the share of
// its uplink's time that activations leave free, which go first. Nodes that share an access line
// (routing/access_lines.h; where that was not measured, those as near to each other as in one local
// network) leave through it all at the same time, of whatever stages they are. δ hides an exchange
// if δ steps last as long. What costs loss least is tried first (docs/OUTER_STEPS.md). Of a cohort
// its speaker sends, to the other speakers, who pass on (docs/decisions/0058):
//
//   for τ of {8, 16, 32, 64, 128}         smaller first; fitted to a divisor of the run's steps
//     for codec of int8, int4, ternary    richer first
//       the smallest δ of τ/16, τ/8, τ/4 that hides it
//   then low rank of budget_bits where that is less: residual in the weights
//   then the last of these with δ of τ/2, or τ, unless memory is short: with δ = τ replicas hold
//   two rounds of messages
//
// What the operator gave stands, and what the mode fixes (common/round_clock.h); the loops run over
// what is open. δ = 0 hides nothing: then a round may wait for a sixteenth of itself. In streaming
// a round's message is that of a fragment, about a P-th of the stage, which δ steps have to hide;
// and the P messages of τ steps, one after the other, have to fit into these.
//
// These numbers change the arithmetic of a run. Transfer time over step time is therefore rounded
// up to a power of two before it decides anything (docs/decisions/0013).
//
// Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/run_config.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct PlacementProblem;  // routing/placement.h

// A delta exchange should be over in this share of the δ steps: links are slower than their median
// half of the time, and replicas do not reach the boundary together.
inline constexpr double kOuterSafety = 1.25;
// Activations leave at least so much of an uplink: priority is not starvation.
inline constexpr double kUplinkFreeMin = 0.1;
// One way, between nodes of one local network.
inline constexpr double kLocalLatencyS = 0.4e-3;
// δ is up to τ / 4 before anything poorer is tried, and in FirstOuter.
inline constexpr int64_t kWantedPart = 4;

struct OuterChoice {
  int64_t inner_steps = 1;
  int64_t overlap_steps = 0;
  DeltaCodec codec = DeltaCodec::kNone;
  // The slowest delta exchange.
  int64_t sent_bytes = 0;  // by its sender, to all others of the stage; 0: nobody has others
  double transfer_s = 0;   // beside the activations
  double step_s = 0;       // of the pipeline alone
  double uplink_free = 1;  // share of its sender's uplink that activations leave
  double line_s = 0;       // all messages of τ steps, one after the other
  bool IsHidden() const {
    return transfer_s <= static_cast<double>(overlap_steps) * step_s &&
           line_s <= static_cast<double>(inner_steps) * step_s;
  }
};

// Whether the configuration leaves any of the three to the planner.
bool IsOuterOpen(const OuterConfig& outer);

// What placements are compared with until the first is known: everything open at its best for loss.
OuterConfig FirstOuter(const RunConfig& config);

// For a plan's placement and the time of its step without outer traffic (finite). `config` as the
// operator gave it; `problem.outer.delta_boundaries` is of `encoded_as`. A δ that is open is at
// most τ / `part`: 1, 2 or kWantedPart.
OuterChoice ChooseOuter(const RunConfig& config, const PlacementProblem& problem,
                        const std::vector<int32_t>& placement, double step_s, DeltaCodec encoded_as,
                        int64_t part = 1);

// What the operator gave with the choice filled in, and the same as the plan writes it down.
OuterConfig Chosen(OuterConfig given, const OuterChoice& choice);
void Settle(const OuterConfig& given, const OuterChoice& choice, PlannedSettings* settings);

// The values of τ tried for a run of `steps`: ascending divisors.
std::vector<int64_t> InnerStepsGrid(int64_t steps);

// "int8", as run.toml says it.
const char* CodecName(DeltaCodec codec);

// "streaming", as run.toml says it; and "streaming in 4 fragments, ", of the default nothing.
const char* ModeName(OuterMode mode);
std::string ModeText(const OuterConfig& outer);

// "δ 2 of τ 16, int8", of settled values, after the mode; and with what the planner knows: "δ 2 of
// τ 16, int8: a round's 3.1 MB per replica take 1.9 s of the 2.4 s that 2 steps last"
std::string OuterText(const OuterConfig& settled);
std::string OuterText(const OuterChoice& choice);

}  // namespace skerry
