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

// Fleet::repeats: what nodes with so much memory would do again in each stage of a partition.
std::vector<double> RepeatsOf(const RunConfig& config, const Partition& partition,
                              const std::vector<int64_t>& memory_bytes);

// The path table of a partition (path_table.h).
std::vector<Path> PathsOf(const RunConfig& config, const Partition& partition);

}  // namespace skerry
