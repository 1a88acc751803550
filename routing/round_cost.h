// What an outer round takes: the one model of it, for the search, for what a plan says of a step,
// and for the choice of τ, δ and codec (pipeline/plan/outer_choice.h).
//
// Times are in seconds, amounts in payloads of a boundary (BoundaryBytes), as Fleet::wire_s is. S
// speak in a stage: the first of each cohort (docs/decisions/0058-clusters.md), where there are
// none every replica. Each sends every other the same amount, all of them at once; in a sharded
// round (docs/decisions/0017-sharded-rounds.md) it does so twice. What it has heard it passes on to
// its members, who have made all pieces themselves:
//
//   all-to-all   ▇▇▇▇▇▇▇▇ deltas │ way, handled │▇▇▇ S − 1 deltas to each member │ handled
//   sharded      ▇▇ pieces │ way, handled │▇▇ sums │ way, handled │▇ S sums to each member │
//   handled
//
//   a leg        amount · leg_s: its slowest link, or all S − 1 messages through the line of one of
//                its ends, whichever is longer: out of the speaker's, or in through it
//   handled      amount · Fleet::handling_s, of one message: its ends handle several at once
//   passed on    all at once as well, when the last has come: as messages that share lines, or that
//                windows and caps make equally slow, all end together
//
// How much of a line a message keeps NodeLines says. Where nothing but equally fast links is known
// of a node the line is as fast as one of them, so its messages take as long as one after another;
// where it was measured what a node carries to several at once (access_lines.h) they need not.
//
// Left out: what a round waits for besides bytes (two ways to the coordinator), replicas that reach
// a boundary apart, and unequal parts of sharded rounds, which are as unequal as the lines. What
// microbatches take of the lines meanwhile only the choice of δ counts (there: uplink_free). Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "routing/evaluator.h"
#include "routing/node_lines.h"

namespace skerry {

struct PlacementProblem;  // placement.h

// To each of the other speakers.
struct RoundAmounts {
  double first = 0;  // a whole delta, or pieces of one
  double sums = 0;   // of the own part; 0: the round is not sharded
  double all() const { return first + sums; }
};

// Of one speaker, for one payload to and from each of the others.
struct SpeakerCost {
  double leg_s = 0;
  double latency_s = 0;  // of the longest way to another
  double passing_s = 0;  // of the slowest other cohort: a payload to all its members
};

// By cohort; `cohorts` of slots, speakers first.
std::vector<SpeakerCost> SpeakerCosts(const PlacementProblem& problem, const NodeLines& lines,
                                      const Placement& placement,
                                      const std::vector<std::vector<int32_t>>& cohorts);

// Of one speaker: from a boundary until everybody has all that it sends and is sent.
struct RoundTime {
  double legs_s = 0;  // on the lines between speakers
  double latency_s = 0;
  double after_s = 0;  // handled, and passed on
  double seconds() const { return legs_s + latency_s + after_s; }
};
// `handling_s` as the fleet's. Nothing, where nobody has others.
RoundTime TimeOfRound(const SpeakerCost& cost, const RoundAmounts& amounts, size_t speakers,
                      double handling_s);

// Those of the problem, made anew where it has none.
std::shared_ptr<const NodeLines> LinesOfProblem(const PlacementProblem& problem);

}  // namespace skerry
