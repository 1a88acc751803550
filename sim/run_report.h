// The picture of a run in virtual time: one page that needs nothing but a browser. What ran, what
// devices did (a Gantt of microbatches), how full the lines were, rounds, loss, crashes and faults.
//
// Pure functions of what was watched; no files, no threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/report.h"
#include "sim/run_trace.h"
#include "sim/scenario.h"
#include "sim/virtual_run.h"

namespace skerry {

// The run's events as its coordinator would have written them: events.jsonl, first line "run" with
// the whole configuration as TOML under "config".
std::string EventLogOf(const VirtualRun& run);

// The same folded. Losses are left out when nothing was computed.
RunReport ReportOf(const VirtualRun& run);

struct RunPicture {
  const Scenario* scenario = nullptr;
  const VirtualRun* run = nullptr;
  const VirtualOutcome* outcome = nullptr;
  const RunTrace* trace = nullptr;
  uint64_t seed = 1;
  std::vector<std::string> wrong;  // sentences: violations, missed figures
  std::string command;             // repeats it
};

// The whole page.
std::string RunReportHtml(const RunPicture& picture);

// Its pieces; empty where there is nothing to show.
std::string GanttSection(const RunPicture& picture);
std::string LineUseSvg(const RunPicture& picture);
std::string MatrixSvg(const RunTrace& trace);
std::string RoundsTable(const RunReport& report);

// CSS of the pieces, and the page's only script: zooming the Gantt.
extern const char kRunReportStyle[];
extern const char kRunReportScript[];

}  // namespace skerry
