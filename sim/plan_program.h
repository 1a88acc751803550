// `skerry-sim plan TOPOLOGY`: what the coordinator would plan for a scenario, beside what others
// would. `skerry-sim plan --skippipe CASE.json`: Skerry's search on a SkipPipe reference case, by
// SkipPipe's own cost model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace skerry {

struct PlanOptions {
  std::string topology;                 // a scenario.toml or its directory
  std::string run;                      // a run.toml instead of the scenario's own run, or ""
  std::string template_name;            // or one of `init --template`
  int32_t vocab = 32'000;               // of its tokenizer
  std::vector<std::string> strategies;  // to compare with, routing/strategy.h; "all"
  std::string report;                   // an HTML file to write, or ""
  std::string skippipe_case;            // a file, sim/skippipe_case.h
  std::string mode = "full";            // "strict" or "full", routing/joint_search.h
  double budget_s = 9;                  // wall time of the search, > 0
  int64_t evaluations = 0;  // of schedules; 0: only the time counts, else the plan repeats
  uint64_t seed = 1;
  bool json = false;
};

// Registers the command; `options` are written when it is parsed and must outlive `app`.
CLI::App* AddPlanCommand(CLI::App& app, PlanOptions& options);

// Prints the plan. JSON of a topology: plan_report.h; of a case, one object:
//   iteration_s                  by the event-driven rule (routing/skippipe_evaluator.h)
//   iteration_s_their_simulator  by SkipPipe's simulator
//   lower_bound_s, gap           of that mode, and how far the slower of the two times is above it
//   plan_s, mode, name           wall time of search and bound
//   skippipe_s                   what SkipPipe's schedule of the case takes, null if there is none
//   partitions, microbatches     the plan: [{"path", "lane", "wave", "release_s"}]
absl::Status RunPlan(const PlanOptions& options);

}  // namespace skerry
