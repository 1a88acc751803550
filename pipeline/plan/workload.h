// A partition and its paths as the evaluator reads them.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run_config.h"
#include "pipeline/plan/partition.h"
#include "routing/evaluator.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

// Of as many steps as it takes to see every path, in [2, steps_max].
Workload WorkloadOf(const RunConfig& config, const Partition& partition,
                    const std::vector<Path>& paths, int32_t steps_max);

// Fleet::handling_s among nodes whom a message costs `message_s` besides its bytes, of which it is
// kHandlingSecondsPerByte where it is kMessageSeconds: a slower machine is slower at both.
double HandlingSeconds(const RunConfig& config, double message_s);

// Sets Fleet::repeats and host_step_s: what it costs nodes with these offers to put off what their
// memory has no room for, in each stage of a partition.
void PutOff(const RunConfig& config, const Partition& partition,
            const std::vector<MemoryOffer>& offers, Fleet* fleet);

// PlacementProblem::fits: which of them have the memory for which stage.
std::vector<uint8_t> FitsOf(const RunConfig& config, const Partition& partition,
                            const std::vector<MemoryOffer>& offers);

// The path table of a partition (path_table.h).
std::vector<Path> PathsOf(const RunConfig& config, const Partition& partition);

}  // namespace skerry
