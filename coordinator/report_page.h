// The pieces of report.html; the simulator's page shows some of them too.
//
// Every function returns markup that is complete in itself and empty when there is nothing to show.
// Colours come from the page's style (CSS variables), so that one drawing serves light and dark.
#pragma once

#include <string>

#include "coordinator/page.h"
#include "coordinator/report.h"

namespace skerry {

// Loss over steps, with the tokens and the time that they took below: training (raw and smoothed),
// validation points, the reference run.
std::string LossChartSvg(const RunReport& report);

// Tokens a second over time, and the share of traced steps that devices were busy.
std::string PaceChartSvg(const RunReport& report);

// One row a stage, one bar a round: on the way, and waited for; deaths and restarts across.
std::string RoundsChartSvg(const RunReport& report);

// One row a stage: what its rounds sent, how much of that was hidden, whose base has which digest.
std::string StageRoundsTable(const RunReport& report);
// Who took part in the newest rounds and who did not, and why; bytes, what was hidden, digests.
std::string NewestRoundsTable(const RunReport& report);

// The newest traced step: the tasks of every node, predicted and as they were. Of GanttStyle.
std::string GanttChart(const RunReport& report);
std::string GanttStyle();

// Stages with their layers and replicas.
std::string PlacementTable(const RunReport& report);

// Measured links between nodes, or between regions (medians) when there are more than
// kLinkTableNodesMax nodes; of very many regions those with the most nodes.
inline constexpr size_t kLinkTableNodesMax = 16;
inline constexpr size_t kLinkTableRegionsMax = 16;
std::string LinkTable(const RunReport& report);

std::string EventTable(const RunReport& report);

}  // namespace skerry
