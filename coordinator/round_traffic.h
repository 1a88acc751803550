// What outer rounds send: bits per parameter and round of one replica, headers included.
#pragma once

#include "coordinator/run_state.h"

namespace skerry {

struct RoundTraffic {
  double bits_up = 0;
  double bits_down = 0;
};

// Parameters of a stage of the plan.
int64_t ParametersOf(const TransformerConfig& model, const StageAssignment& stage, bool holds_ends);

// The mean over the stages of their latest round that was reported; zeros without one.
RoundTraffic TrafficOfRounds(const RunState& state, const TransformerConfig& model);

}  // namespace skerry
