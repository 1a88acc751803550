// How fast a step can be at best: the honest other end of every plan's predicted time.
//
// Per step, in the model of evaluator.h, averaged over the workload's steps:
//   compute      a node computes one task at a time: its work, and its optimizer's, is a bound (LB1
//                of the routing notes)
//   round trips  a stage-0 node has at most m of its k microbatches under way and its step ends
//   when all
//                are back, so the step takes at least Σ RTT / m (Little), ⌈k / m⌉ · min RTT, and
//                max RTT (LB2), where RTT is the tour's computing and travelling time without any
//                queue; then its optimizer's step
// Valid, not tight: queues, uplinks and the order of tasks are left out. Outer traffic is, too.
#pragma once

#include "routing/evaluator.h"

namespace skerry {

// Of this placement: StepSeconds(placement) ≥ PlacementBound(placement).
double PlacementBound(const Workload& workload, const Fleet& fleet, const Placement& placement);

// Of every placement of this workload on this fleet. Compute: the heaviest slots on the fastest
// nodes. Round trips: their sum over the table is a quadratic assignment problem, bounded by
// Gilmore and Lawler's linear one (1962), solved exactly up to kAssignmentNodesMax nodes and by row
// minima beyond.
double AnyPlacementBound(const Workload& workload, const Fleet& fleet);

inline constexpr int32_t kAssignmentNodesMax = 128;

}  // namespace skerry
