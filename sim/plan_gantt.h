// A chart of the first steps of a plan: a row per node, a bar per task, in the order of stages.
#pragma once

#include <string>
#include <vector>

#include "sim/plan_comparison.h"

namespace skerry {

// An SVG element. `names`: of every slot's node, escaped for HTML.
std::string GanttSvg(const ShownPlan& shown, const std::vector<std::string>& names);

}  // namespace skerry
