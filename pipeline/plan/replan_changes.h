// The changes of places that a running plan allows, for ChooseMoves (replan.h).
#pragma once

#include <limits>
#include <vector>

#include "pipeline/plan/replan.h"

namespace skerry {

struct Change {
  std::vector<Move> moves;
  double rough_s = 0;  // a bound of the step from below: tells what is worth predicting
  double then_s = std::numeric_limits<double>::infinity();  // as predicted
  double risk_s = 0;                                        // work that is likely to be lost then
};

// Every change that the stages, the memory of the nodes and the rules of replan.h allow, the most
// promising by rough_s first; nothing else of them is filled in.
std::vector<Change> ChangesOf(const ReplanRequest& request, ReplanWork& work);

// The same plan without the dead and without stages that nobody holds: what really works.
PipelinePlan LivingOnly(PipelinePlan plan);

}  // namespace skerry
