// Who takes part: a node that would make a step longer is left out, and stands by
// (docs/decisions/0015-sound-plans.md).
//
// A far or slow node lengthens the round trips of every microbatch that visits it, and one node
// more can turn three stages into four, with a hop more for all. So shapes that leave out the worst
// nodes, or make fewer stages, are planned too, quickly, and the best few of them are planned in
// earnest. Never fewer than nodes_min nodes, nor fewer stages than so many nodes would get: the
// operator said so many are a run. What makes a node bad: its way to the others, its speed, its
// memory; the worst of each go first, in growing numbers, then one at a time. Who is near one node
// may be far from most, so those nearest to each node are looked at, too.
//
// This decides the arithmetic of the run, so it looks at *rounded* figures: links to powers of
// kLinkClassRatio; speeds are medians over equal devices, and the cut of layers rounds them itself
// (partition.h). The same fleet measured twice gets the same nodes unless two choices are alike to
// within what rounding moves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/ids.h"
#include "pipeline/plan/planner.h"

namespace skerry {

inline constexpr double kLinkClassRatio = 1.2599210498948732;  // the third root of two
inline constexpr double kWorthLeavingOut = 0.001;  // of a step: less is not worth a node
inline constexpr size_t kQuickPlansMax = 64;       // together about what a plan in earnest takes
inline constexpr size_t kSmallPlansMax = 320;      // of fleets of a dozen
// Larger fleets take part whole: there a node is a small part of them, and planning takes long.
inline constexpr size_t kChosenFleetMax = 128;

struct TakingPart {
  std::vector<NodeId> nodes;  // ascending
  int32_t stages = 0;         // as PipelineConfig::stages
};

// Seconds per step of a quick plan for the nodes and the configuration of this input; infinite
// where there is none. It has rounded figures.
using QuickPlan = std::function<double(const PlannerInput& input)>;

// The best first, at most `most`, at least one. The input is sound (planner.cc checks it).
std::vector<TakingPart> ChooseTakingPart(const PlannerInput& input, const QuickPlan& quick_plan,
                                         size_t most);

// The same with links rounded to their classes and speeds settled.
PlannerInput Rounded(const PlannerInput& input);

}  // namespace skerry
