#include "sim/run_program.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/status.h"
#include "coordinator/report.h"
#include "sim/chrome_trace.h"
#include "sim/scenario_run.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Told {
  VirtualOutcome outcome;
  std::vector<std::string> wrong;  // sentences
  double real_s = 0;
};

Json ToJson(const Scenario& scenario, const RunScenarioOptions& options, const Told& told) {
  const VirtualOutcome& o = told.outcome;
  Json violations = Json::array();
  for (const Violation& v : o.violations) {
    violations.push_back(
        {{"rule", v.rule}, {"what", v.what}, {"at_s", (v.at - Instant()).seconds()}});
  }
  return {{"scenario", scenario.name},
          {"seed", options.seed},
          {"nodes", scenario.nodes.size()},
          {"finished", o.finished},
          {"ended", o.ended},
          {"virtual_s", o.virtual_s},
          {"training_s", o.training_s},
          {"step_s", o.step_s},
          {"steps", o.steps},
          {"tokens", o.tokens},
          {"tokens_per_s", o.tokens_per_s},
          {"outer_rounds", o.rounds},
          {"hidden_fraction", o.hidden_fraction},
          {"bytes_up", o.bytes_sent},
          {"loss_first", options.real_math ? Json(o.loss_first) : Json()},
          {"loss_last", options.real_math ? Json(o.loss_last) : Json()},
          {"events", o.events},
          {"real_s", told.real_s},
          {"trace_hash", absl::StrFormat("%016x", o.trace_hash)},
          {"violations", violations},
          {"wrong", told.wrong}};
}

void Print(const Scenario& scenario, const RunScenarioOptions& options, const Told& told) {
  const VirtualOutcome& o = told.outcome;
  std::printf("%s, seed %lu: %zu nodes, %s\n", scenario.name.c_str(),
              static_cast<unsigned long>(options.seed), scenario.nodes.size(),
              o.finished ? "finished" : o.ended.c_str());
  std::printf("  virtual time     %12.1f s, of which training %.1f s\n", o.virtual_s, o.training_s);
  std::printf("  steps            %12ld    median %.3f s\n", static_cast<long>(o.steps), o.step_s);
  std::printf("  tokens           %12ld    %.0f a second\n", static_cast<long>(o.tokens),
              o.tokens_per_s);
  std::printf("  outer rounds     %12ld    %.1f %% of their transfer hidden\n",
              static_cast<long>(o.rounds), 100 * o.hidden_fraction);
  std::printf("  sent by nodes    %12.1f MB\n", static_cast<double>(o.bytes_sent) * 1e-6);
  if (options.real_math) {
    std::printf("  loss             %12.4f    at first %.4f (a tiny model, really trained)\n",
                o.loss_last, o.loss_first);
  }
  std::printf("  events           %12ld    in %.2f s of real time\n", static_cast<long>(o.events),
              told.real_s);
  std::printf("  trace            %016lx\n", static_cast<unsigned long>(o.trace_hash));
  for (const std::string& sentence : told.wrong) std::printf("  WRONG: %s\n", sentence.c_str());
}

std::vector<std::string> Wrong(const Scenario& scenario, const VirtualOutcome& outcome) {
  std::vector<std::string> wrong = MissedExpectations(scenario, outcome);
  for (const Violation& v : outcome.violations) {
    wrong.push_back(
        absl::StrFormat("%s at %.3f s: %s", v.rule, (v.at - Instant()).seconds(), v.what));
  }
  return wrong;
}

// The same scenario with nothing failing, for what failure costs in loss.
absl::Status CompareWithCalm(const Scenario& scenario, const ScenarioRunOptions& options,
                             Told& told) {
  if (!scenario.expect.loss_ratio_max) return absl::OkStatus();
  if (!options.real_math) {
    return InvalidArgument("%s expects a loss_ratio_max; only --real-math has losses",
                           scenario.file);
  }
  Scenario calm = scenario;
  calm.faults.clear();
  calm.churn.clear();
  SKERRY_ASSIGN_OR_RETURN(auto run, MakeScenarioRun(calm, options));
  const double ratio = told.outcome.loss_last / run->Run().loss_last;
  if (ratio > *scenario.expect.loss_ratio_max) {
    told.wrong.push_back(absl::StrFormat("loss_ratio_max: want ≤ %g, got %g",
                                         *scenario.expect.loss_ratio_max, ratio));
  }
  return absl::OkStatus();
}

absl::Status WriteEvents(const VirtualRun& run, const std::string& out_dir) {
  std::error_code error;
  fs::create_directories(out_dir, error);
  const fs::path path = fs::path(out_dir) / "events.jsonl";
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  const RunConfig& config = run.options().config;
  out << Json{{"t", 0},
              {"utc", ""},
              {"kind", "run"},
              {"run", "simulated"},
              {"name", config.name},
              {"seed", run.options().seed},
              {"steps", config.steps},
              {"skip_ratio", config.pipeline.skip_ratio},
              {"nodes_min", config.nodes_min}}
             .dump()
      << "\n";
  for (const VirtualEvent& event : run.events()) {
    if (event.process != VirtualRun::coordinator()) continue;
    out << absl::StrFormat(R"({"t":%.3f,"utc":"","kind":"%s"%s%s})",
                           (event.at - Instant()).seconds(), event.kind,
                           event.fields.empty() ? "" : ",", event.fields)
        << "\n";
  }
  out.flush();
  if (!out) return Unavailable("%s: cannot be written", path.string());
  SKERRY_ASSIGN_OR_RETURN(const RunReport report, BuildReport({path}, std::nullopt));
  return WriteReport(report, out_dir);
}

}  // namespace

absl::Status RunScenario(const RunScenarioOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const Scenario scenario, LoadScenario(options.scenario));
  const ScenarioRunOptions run_options{options.seed, options.real_math};
  SKERRY_ASSIGN_OR_RETURN(auto run, MakeScenarioRun(scenario, run_options));
  ChromeTrace trace;
  if (!options.trace.empty()) run->simulation().Observe(&trace);
  Told told;
  const auto start = std::chrono::steady_clock::now();
  told.outcome = run->Run();
  told.real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  told.wrong = Wrong(scenario, told.outcome);
  if (options.twice) {
    SKERRY_ASSIGN_OR_RETURN(auto again, MakeScenarioRun(scenario, run_options));
    if (again->Run().trace_hash != told.outcome.trace_hash) {
      told.wrong.push_back("its second run had another trace");
    }
  }
  SKERRY_RETURN_IF_ERROR(CompareWithCalm(scenario, run_options, told));
  if (!options.trace.empty()) SKERRY_RETURN_IF_ERROR(trace.Write(options.trace));
  if (!options.out_dir.empty()) SKERRY_RETURN_IF_ERROR(WriteEvents(*run, options.out_dir));
  if (options.json) {
    std::printf("%s\n", ToJson(scenario, options, told).dump(2).c_str());
  } else {
    Print(scenario, options, told);
  }
  if (!told.wrong.empty()) return Internal("%s", told.wrong.front());
  return absl::OkStatus();
}

}  // namespace skerry
