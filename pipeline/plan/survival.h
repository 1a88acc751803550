// How long a run lives whose nodes come and go, and what of it a thin stage puts at risk.
//
// A stage that loses its last replica has lost its parameters: with stage 0 the run ends, with
// another, it goes on without those layers. Nodes leave independently at `departures_per_s` each,
// and one of the stages that lack replicas is given one every `refill_s`; so a stage's number of
// live replicas is a birth-death chain, whose mean time from r to none has a closed form:
//
//   D_i = 1 / (i λ) + μ / (i λ) · D_{i+1},   D_planned = 1 / (planned λ),   time = D_1 + … + D_r
//
// λ comes from the run itself: departures over node-seconds observed. Departures in bulk (a zone
// that is reclaimed) are more dangerous than this says. What a loss costs are the seconds of work
// that it undoes: those made and those still to come.
#pragma once

#include <cstdint>

#include "wire/message/pipeline_plan.h"

namespace skerry {

struct Churn {
  double departures_per_s = 0;  // of one node; 0: nobody leaves, as far as is known
  double refill_s =
      0;  // from a departure until another holds the slot; 0 or infinite: nobody comes
};

// Mean seconds until a stage of `planned` slots has no replica left, from `live` ≤ planned of them;
// infinite where nobody leaves. 0 for live = 0.
double SecondsToLoss(int64_t live, int64_t planned, const Churn& churn);

inline constexpr double kLaterStageShare = 0.5;

// Expected seconds of work lost within `horizon_s` because a stage loses its last replica: `lost_s`
// if it is stage 0, kLaterStageShare of that if it is another. Joiners count as if they were there.
// Stages that nobody holds count for nothing: they are lost whatever is done.
double ExpectedLossSeconds(const PipelinePlan& plan, const Churn& churn, double horizon_s,
                           double lost_s);

}  // namespace skerry
