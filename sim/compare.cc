#include "sim/compare.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/status.h"
#include "pipeline/plan/outer_choice.h"
#include "sim/config_change.h"
#include "sim/scenario_run.h"
#include "wire/toml_reader.h"

namespace skerry {
namespace {

struct BuiltIn {
  const char* family;
  Strategy strategy;
};

std::vector<BuiltIn> AllBuiltIns(const RunConfig& config) {
  const int64_t inner = FirstOuter(config).inner_steps;
  const auto overlap = [inner](int64_t steps) {
    return std::vector<std::string>{absl::StrFormat("outer.inner_steps=%d", inner),
                                    absl::StrFormat("outer.overlap_steps=%d", steps)};
  };
  std::vector<BuiltIn> all = {
      {"", {"as_is", "the scenario as it is written", {}}},
      {"pipeline",
       {"in_order",
        "every microbatch visits every stage in order",
        {"pipeline.skip_ratio=0", "pipeline.swaps=0"}}},
      {"pipeline", {"skip25", "skips a quarter of the stages", {"pipeline.skip_ratio=0.25"}}},
      {"pipeline", {"skip33", "skips a third of the stages", {"pipeline.skip_ratio=0.33"}}},
      {"pipeline", {"skip50", "skips half of the stages", {"pipeline.skip_ratio=0.5"}}},
      {"pipeline", {"swaps", "neighbouring stages may be exchanged", {"pipeline.swaps=1"}}},
      {"outer", {"synchronous", "everybody waits for the update (δ = 0)", overlap(0)}},
      {"outer",
       {"overlap", "the update lands a quarter of a round later",
        overlap(std::max<int64_t>(inner / 4, std::min<int64_t>(inner, 1)))}},
      {"outer", {"full_overlap", "the update lands a round later (δ = τ)", overlap(inner)}},
      {"outer",
       {"data_parallel",
        "averages every step, uncompressed (τ = 1)",
        {"outer.inner_steps=1", "outer.overlap_steps=0", "outer.codec=none",
         "outer.learning_rate=1", "outer.momentum=0"}}}};
  // Where few speak rounds would not be sharded, so none are.
  all.push_back(
      {"cohorts",
       {"alone", "every replica speaks for itself", {"cluster.groups=off", "outer.reduce=all"}}});
  all.push_back({"cohorts",
                 {"cohorts",
                  "near replicas of a stage sum their gradients and are one",
                  {"cluster.groups=measured", "outer.reduce=all", "cluster.overlap_steps=0"}}});
  all.push_back({"cohorts",
                 {"cohorts_overlap",
                  "the same, and sum the gradients of a step while the next one computes",
                  {"cluster.groups=measured", "outer.reduce=all", "cluster.overlap_steps=1"}}});
  all.push_back(
      {"codecs", {"uncompressed", "deltas as float32", {"outer.tier=custom", "outer.codec=none"}}});
  for (const std::string codec : {"bf16", "int8", "int4", "ternary", "sign", "topk", "lowrank"}) {
    all.push_back(
        {"codecs", {codec, "deltas as " + codec, {"outer.tier=custom", "outer.codec=" + codec}}});
  }
  return all;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

absl::StatusOr<Strategy> OwnStrategy(const std::string& set) {
  const size_t colon = set.find(':');
  if (colon == std::string::npos || colon == 0) {
    return InvalidArgument("'%s': want NAME:SECTION.KEY=VALUE,…", set);
  }
  Strategy strategy{set.substr(0, colon), set.substr(colon + 1), Split(set.substr(colon + 1), ',')};
  if (strategy.changes.empty()) return InvalidArgument("'%s': it changes nothing", set);
  return strategy;
}

Spread SpreadOfValues(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

CompareCell CellOf(uint64_t seed, const VirtualOutcome& outcome) {
  CompareCell cell;
  cell.seed = seed;
  cell.step_s = outcome.step_s;
  cell.tokens_per_s = outcome.tokens_per_s;
  cell.hidden_fraction = outcome.hidden_fraction;
  const auto tokens = static_cast<double>(std::max<int64_t>(outcome.tokens, 1));
  cell.bytes_per_token = static_cast<double>(outcome.bytes_sent) / tokens;
  cell.wide_bytes_per_token = static_cast<double>(outcome.bytes_between_regions) / tokens;
  cell.loss = outcome.loss_last;
  cell.trace_hash = outcome.trace_hash;
  if (!outcome.finished) cell.wrong = "it did not finish: " + outcome.ended;
  if (!outcome.violations.empty()) {
    cell.wrong = outcome.violations.front().rule + ": " + outcome.violations.front().what;
  }
  return cell;
}

}  // namespace

std::vector<Strategy> BuiltInStrategies(const RunConfig& config) {
  std::vector<Strategy> strategies;
  for (BuiltIn& built_in : AllBuiltIns(config)) strategies.push_back(std::move(built_in.strategy));
  return strategies;
}

absl::StatusOr<std::vector<Strategy>> ChooseStrategies(const RunConfig& config,
                                                       const std::string& list,
                                                       const std::vector<std::string>& sets) {
  const std::vector<BuiltIn> known = AllBuiltIns(config);
  std::set<std::string> names = {"all"};
  for (const BuiltIn& built_in : known) {
    names.insert(built_in.strategy.name);
    if (*built_in.family != '\0') names.insert(built_in.family);
  }
  std::vector<Strategy> chosen;
  const auto add = [&](const Strategy& strategy) {
    const bool is_new = std::none_of(chosen.begin(), chosen.end(),
                                     [&](const Strategy& s) { return s.name == strategy.name; });
    if (is_new) chosen.push_back(strategy);
  };
  for (const std::string& name : Split(list, ',')) {
    if (!names.contains(name)) {
      const std::string nearest = NearestName(name, names);
      std::string all;
      for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
      return InvalidArgument("there is no strategy '%s'%s; there are %s", name,
                             nearest.empty() ? "" : ", nearest is '" + nearest + "'", all);
    }
    for (const BuiltIn& b : known)
      if (name == "all" || name == b.family || name == b.strategy.name) add(b.strategy);
  }
  for (const std::string& set : sets) {
    SKERRY_ASSIGN_OR_RETURN(const Strategy own, OwnStrategy(set));
    add(own);
  }
  if (chosen.empty()) return InvalidArgument("no strategy is named: nothing to compare");
  for (const Strategy& strategy : chosen) {
    RunConfig changed = config;
    const absl::Status fits = ApplyConfigChanges(strategy.changes, changed);
    if (!fits.ok()) return Annotate(fits, "strategy '" + strategy.name + "'");
  }
  return chosen;
}

void OneAfterAnother(size_t jobs, const std::function<void(size_t job)>& run) {
  for (size_t job = 0; job < jobs; ++job) run(job);
}

absl::StatusOr<Comparison> Compare(const Scenario& scenario,
                                   const std::vector<Strategy>& strategies,
                                   const CompareOptions& options, const Executor& executor) {
  Comparison comparison{scenario.name, options.real_math, {}};
  const auto seeds = static_cast<size_t>(options.seeds);
  std::vector<absl::Status> failed(strategies.size() * seeds);
  for (const Strategy& strategy : strategies)
    comparison.strategies.push_back({strategy, std::vector<CompareCell>(seeds)});
  // Seeds first: what is printed early compares all strategies.
  executor(failed.size(), [&](size_t job) {
    StrategyCells& strategy = comparison.strategies[job % strategies.size()];
    const size_t index = job / strategies.size();
    Scenario changed = scenario;
    changed.run.seed += options.first_seed - 1 + index;
    failed[job] = ApplyConfigChanges(strategy.strategy.changes, changed.run);
    if (!failed[job].ok()) return;
    ScenarioRunOptions run_options;
    run_options.seed = options.first_seed + index;
    run_options.real_math = options.real_math;
    run_options.keep_events = false;
    auto run = MakeScenarioRun(changed, run_options);
    failed[job] = run.status();
    if (run.ok()) strategy.cells[index] = CellOf(run_options.seed, (*run)->Run());
  });
  for (const absl::Status& status : failed) SKERRY_RETURN_IF_ERROR(status);
  return comparison;
}

Spread SpreadOf(const StrategyCells& strategy, const CompareFigure& figure) {
  std::vector<double> values;
  for (const CompareCell& cell : strategy.cells)
    if (cell.wrong.empty()) values.push_back(cell.*figure.value);
  return SpreadOfValues(std::move(values));
}

Spread ChangeOf(const StrategyCells& strategy, const StrategyCells& base,
                const CompareFigure& figure) {
  std::vector<double> changes;
  for (size_t i = 0; i < std::min(strategy.cells.size(), base.cells.size()); ++i) {
    const double was = base.cells[i].*figure.value;
    if (!strategy.cells[i].wrong.empty() || !base.cells[i].wrong.empty() || was == 0) continue;
    changes.push_back(strategy.cells[i].*figure.value / was - 1);
  }
  return SpreadOfValues(std::move(changes));
}

}  // namespace skerry
