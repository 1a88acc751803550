// Strategies side by side: one scenario, several configurations, the same seeds.
//
// A strategy is a name and changes of the run's configuration (sim/config_change.h). Seed s draws
// chance, churn and network as `skerry-sim run --seed s` does, and the run's own seed (weights,
// order of data) is the scenario's plus s − 1, so that losses have a spread too. Differences are
// paired: of each seed to the first strategy on that seed.
//
// Nothing depends on how many cells run at once: a VirtualRun shares nothing with another.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/scenario.h"

namespace skerry {

struct Strategy {
  std::string name;
  std::string about;                 // one phrase
  std::vector<std::string> changes;  // "section.key=value"
};

// The built-in ones, for this configuration: those of the outer step follow its τ.
std::vector<Strategy> BuiltInStrategies(const RunConfig& config);

// `list`: names, or "all", or a family ("pipeline", "outer", "codecs"), separated by commas; ""
// means none. `sets`: "name:key=value,key=value", strategies of the user's own, after the listed
// ones. InvalidArgument names the nearest for what nobody knows, and what a configuration refuses.
absl::StatusOr<std::vector<Strategy>> ChooseStrategies(const RunConfig& config,
                                                       const std::string& list,
                                                       const std::vector<std::string>& sets);

// What one strategy did on one seed.
struct CompareCell {
  uint64_t seed = 0;
  double step_s = 0;
  double tokens_per_s = 0;
  double hidden_fraction = 1;
  double bytes_per_token = 0;       // sent by nodes
  double wide_bytes_per_token = 0;  // to nodes of other regions
  double loss = 0;                  // mean of the last steps; 0 without arithmetic
  uint64_t trace_hash = 0;
  std::string wrong;  // did not finish, or a violated rule; "" when all is well
};

struct StrategyCells {
  Strategy strategy;
  std::vector<CompareCell> cells;  // by seed
};

struct Comparison {
  std::string scenario;
  bool real_math = false;
  std::vector<StrategyCells> strategies;
};

struct CompareOptions {
  uint64_t first_seed = 1;
  int64_t seeds = 3;
  bool real_math = false;
};

// Calls run(0) … run(jobs − 1), in any order, at once if it likes; returns when all have returned.
using Executor = std::function<void(size_t jobs, const std::function<void(size_t job)>& run)>;
void OneAfterAnother(size_t jobs, const std::function<void(size_t job)>& run);

absl::StatusOr<Comparison> Compare(const Scenario& scenario,
                                   const std::vector<Strategy>& strategies,
                                   const CompareOptions& options, const Executor& executor);

// What is compared, in the order of the table.
struct CompareFigure {
  const char* key;    // in JSON
  const char* title;  // for people, with the unit
  double CompareCell::*value;
  double scale;  // for people: 100 for percent
  int decimals;
  bool only_real_math;
};
inline constexpr std::array<CompareFigure, 6> kCompareFigures = {{
    {"step_s", "step, s", &CompareCell::step_s, 1, 3, false},
    {"tokens_per_s", "tokens/s", &CompareCell::tokens_per_s, 1, 0, false},
    {"hidden_fraction", "hidden, %", &CompareCell::hidden_fraction, 100, 1, false},
    {"bytes_per_token", "sent, B/token", &CompareCell::bytes_per_token, 1, 0, false},
    {"wide_bytes_per_token", "wide, B/token", &CompareCell::wide_bytes_per_token, 1, 0, false},
    {"loss", "loss, nat", &CompareCell::loss, 1, 3, true},
}};

struct Spread {
  double median = 0, low = 0, high = 0;
};
// Of cells where nothing went wrong; zeros when there are none.
Spread SpreadOf(const StrategyCells& strategy, const CompareFigure& figure);
// Of value / value of `base` − 1, seed by seed, over seeds where neither went wrong.
Spread ChangeOf(const StrategyCells& strategy, const StrategyCells& base,
                const CompareFigure& figure);

// A table for terminals, one object for programs, one page for browsers.
std::string CompareTable(const Comparison& comparison);
std::string CompareJson(const Comparison& comparison);
std::string CompareHtml(const Comparison& comparison);

}  // namespace skerry
