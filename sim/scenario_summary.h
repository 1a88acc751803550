// A scenario in words, for `skerry-sim check`: what was understood, so that a slip of a unit or a
// forgotten line is seen before anything runs.
#pragma once

#include <string>

#include "sim/scenario.h"

namespace skerry {

// Several lines: nodes by device, regions and the spread of delays and rates between them, the
// run, faults and churn over the horizon with this seed, checkers, whether emulate can take it.
std::string SummaryOf(const Scenario& scenario, uint64_t seed);

// The device catalogue as a table.
std::string DeviceTable();

}  // namespace skerry
