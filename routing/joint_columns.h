// Cutting a placement into columns: the plans in which nobody is in another's way.
//
// A column is a set of later nodes, each of another stage, that a share of the microbatches visits
// and nobody else does. Where SkipPipe's proportions hold (stage 0 as many nodes as there are
// columns), every node of stage 0 then has its own pipeline. A search that moves single visits
// hardly ever gets there: half of a column is worse than none.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/skippipe_problem.h"

namespace skerry {

// [column] its later nodes in order of stages; empty if this placement cannot be cut so: later
// nodes or microbatches do not divide into columns, later stages differ in size (they would not
// take part equally), or a column would have to pass over too many stages.
std::vector<std::vector<int32_t>> CutIntoColumns(
    const SkipPipeProblem& problem, const std::vector<std::vector<int32_t>>& partitions);

}  // namespace skerry
