// How long a run lives whose nodes come and go, and what of it a thin stage puts at risk.
//
// A stage that loses its last replica has lost its parameters: with stage 0 the run ends, with
// another, it goes on without those layers. Nodes leave independently at λ = `departures_per_s`
// each, and a stage that lacks replicas is given one every `refill_s` = 1 / μ; so the number i of
// its live replicas is a birth-death chain. The probability f_i(t) that it reaches none within t
// obeys
//
//   f_i' = i λ (f_{i−1} − f_i) + μ (f_{i+1} − f_i),   f_0 = 1, f_i(0) = 0, μ = 0 where none lacks
//
// and is integrated in implicit steps. λ comes from the run itself: departures over node-seconds
// observed. Departures in bulk (a zone that is reclaimed) are more dangerous than this says. What a
// loss costs are the seconds of work that it undoes: those made and those still to come.
#pragma once

#include <cstdint>

#include "wire/message/pipeline_plan.h"

namespace skerry {

struct Churn {
  double departures_per_s = 0;  // of one node; 0: nobody leaves, as far as is known
  double refill_s =
      0;  // from a departure until another holds the slot; 0 or infinite: nobody comes
};

// That a stage of `planned` slots, `live` ≤ planned of them held, has no replica left at some time
// within `horizon_s`; to about a hundredth of itself. 1 for live = 0.
double LossProbability(int64_t live, int64_t planned, const Churn& churn, double horizon_s);

inline constexpr double kLaterStageShare = 0.5;

// Expected seconds of work lost within `horizon_s` because a stage loses its last replica: `lost_s`
// if it is stage 0, kLaterStageShare of that if it is another. Joiners count as if they were there.
// Stages that nobody holds count for nothing: they are lost whatever is done.
double ExpectedLossSeconds(const PipelinePlan& plan, const Churn& churn, double horizon_s,
                           double lost_s);

}  // namespace skerry
