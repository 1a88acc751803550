// How fast an iteration can be at best under SkipPipe's rules: the other end of every plan's time.
//
// A linear program over the mix of tours (LB3 and LB4 of the routing notes; Little's law): a memory
// slot is taken from a forward's start until the backward is over, at least for the rest of the
// tour without any waiting; the slots of a node start and end one after another, since it computes
// one task at a time; between the earliest arrival there can be and the shortest way home. Solved
// by column generation; what is returned is the Lagrangian bound of the last duals over every tour,
// so it is valid however early the search for columns ends. Whole microbatches and the order of a
// stage-0 node's tasks count in origin_bound.h; the larger of the two is returned.
//
// Where there are more than kToursMax tours, only computing and the shortest round trip count, and
// that may pass a node twice.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/skippipe_problem.h"

namespace skerry {

inline constexpr double kToursMax = 1e6;

// Of every schedule on this placement in which all nodes of a stage serve equally many
// microbatches; of every schedule if their number does not allow that.
double EqualLoadBound(const SkipPipeProblem& problem,
                      const std::vector<std::vector<int32_t>>& partitions);

// Of every schedule on any placement: a node's memory and time are split freely between being of
// stage 0 and of another stage.
double AnyPlanBound(const SkipPipeProblem& problem);

}  // namespace skerry
