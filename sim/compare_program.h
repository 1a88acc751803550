// `skerry-sim compare`: strategies side by side on the same seeds, as a table, JSON, a page.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sim/compare.h"

namespace CLI {
class App;
}

namespace skerry {

struct CompareProgramOptions {
  std::string scenario;
  std::string strategies = "all";
  std::vector<std::string> sets;
  CompareOptions compare;
  std::string json;     // file, "-" for standard output; "": none
  std::string report;   // HTML file; "": none
  int32_t threads = 0;  // 0: one per processor
};

// Registers the command; `options` are written when it is parsed and must outlive `app`.
CLI::App* AddCompareCommand(CLI::App& app, CompareProgramOptions& options);

// Internal: a rule was violated or a run did not finish, after everything was printed.
absl::Status RunCompare(const CompareProgramOptions& options);

}  // namespace skerry
