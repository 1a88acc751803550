#include "sim/run_program.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/report.h"
#include "model/file_io.h"
#include "sim/chrome_trace.h"
#include "sim/config_change.h"
#include "sim/run_report.h"
#include "sim/run_trace.h"
#include "sim/scenario_run.h"
#include "sim/step_share.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Told {
  VirtualOutcome outcome;
  std::vector<std::string> wrong;  // sentences
  double real_s = 0;
  double planned_step_s = 0;
};

// What the first plan said of a step; 0: there was none.
double PlannedStep(const VirtualRun& run) {
  for (const VirtualEvent& event : run.events()) {
    if (event.kind != "plan") continue;
    return Json::parse("{" + event.fields + "}", nullptr, false).value("predicted_step_s", 0.0);
  }
  return 0;
}

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
          {"planned_step_s", told.planned_step_s},
          {"steps", o.steps},
          {"tokens", o.tokens},
          {"tokens_per_s", o.tokens_per_s},
          {"outer_rounds", o.rounds},
          {"hidden_fraction", o.hidden_fraction},
          {"sums_of_gradients", o.sums.sums},
          {"sums_hidden_fraction", o.sums.HiddenFraction()},
          {"bytes_up", o.bytes_sent},
          {"bytes_withdrawn", o.bytes_withdrawn},
          {"bytes_between_regions", o.bytes_between_regions},
          {"loss_first", options.real_math ? Json(o.loss_first) : Json()},
          {"loss_last", options.real_math ? Json(o.loss_last) : Json()},
          {"events", o.events},
          {"tables", o.tables},
          {"real_s", told.real_s},
          {"trace_hash", absl::StrFormat("%016x", o.trace_hash)},
          {"violations", violations},
          {"wrong", told.wrong}};
}

void Print(const Scenario& scenario, const RunScenarioOptions& options, const Told& told) {
  const VirtualOutcome& o = told.outcome;
  std::printf("%s, seed %lu: %zu nodes, %s\n", scenario.name.c_str(),
              static_cast<unsigned long>(options.seed), scenario.nodes.size(),
              o.finished ? "finished" : ("not finished: " + o.ended).c_str());
  std::printf("  virtual time     %12.1f s, of which training %.1f s\n", o.virtual_s, o.training_s);
  std::printf("  steps            %12ld    of %ld, median %.3f s, planned %.3f s\n",
              static_cast<long>(o.steps), static_cast<long>(scenario.run.steps), o.step_s,
              told.planned_step_s);
  std::printf("  tokens           %12ld    %.0f a second\n", static_cast<long>(o.tokens),
              o.tokens_per_s);
  std::printf("  outer rounds     %12ld", static_cast<long>(o.rounds));
  if (o.rounds > 0) std::printf("    %.1f %% of their transfer hidden", 100 * o.hidden_fraction);
  std::printf("\n");
  if (o.sums.sums > 0) std::printf("  in cohorts       %s\n", SumTimesText(o.sums).c_str());
  for (const std::string& table : o.tables) std::printf("  %s\n", table.c_str());
  std::printf("  sent by nodes    %12.1f MB    %.1f of them to other regions\n",
              static_cast<double>(o.bytes_sent) * 1e-6,
              static_cast<double>(o.bytes_between_regions) * 1e-6);
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

VirtualOutcome RunShown(VirtualRun& run, const std::string& what, bool json) {
  ShareLine line(what, !json);
  const StepShare share(run, [&line](double done) { line.Show(done); });
  return run.Run();
}

// The same scenario with nothing failing, for what failure costs in loss.
absl::Status CompareWithCalm(const Scenario& scenario, const ScenarioRunOptions& options, bool json,
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
  const VirtualOutcome outcome = RunShown(*run, "simulating it with nothing failing", json);
  const double ratio = told.outcome.loss_last / outcome.loss_last;
  if (ratio > *scenario.expect.loss_ratio_max) {
    told.wrong.push_back(absl::StrFormat("loss_ratio_max: want ≤ %g, got %g",
                                         *scenario.expect.loss_ratio_max, ratio));
  }
  return absl::OkStatus();
}

std::string CommandOf(const RunScenarioOptions& options) {
  std::string command =
      absl::StrFormat("skerry-sim run %s --seed %d", options.scenario, options.seed);
  for (const std::string& change : options.changes) command += " --set " + change;
  return command + (options.real_math ? " --real-math" : "");
}

absl::Status WriteOutputs(const RunScenarioOptions& options, const RunPicture& picture) {
  if (!options.report.empty()) {
    SKERRY_RETURN_IF_ERROR(ReplaceText(options.report, RunReportHtml(picture)));
  }
  if (options.out_dir.empty()) return absl::OkStatus();
  const fs::path out(options.out_dir);
  std::error_code error;
  fs::create_directories(out, error);
  if (error) return Unavailable("%s: %s", out.string(), error.message());
  SKERRY_RETURN_IF_ERROR(ReplaceText(out / "events.jsonl", EventLogOf(*picture.run)));
  SKERRY_RETURN_IF_ERROR(ReplaceText(out / "simulation.html", RunReportHtml(picture)));
  return WriteReport(ReportOf(*picture.run), options.out_dir);
}

}  // namespace

absl::Status RunScenario(const RunScenarioOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.scenario));
  SKERRY_RETURN_IF_ERROR(ApplyConfigChanges(options.changes, scenario.run));
  const ScenarioRunOptions run_options{options.seed, options.real_math};
  SKERRY_ASSIGN_OR_RETURN(auto run, MakeScenarioRun(scenario, run_options));
  ChromeTrace trace;
  if (!options.trace.empty()) run->simulation().Observe(&trace);
  RunTrace seen({.first_step = options.gantt_step});
  if (!options.report.empty() || !options.out_dir.empty()) seen.Watch(*run);
  Told told;
  const auto start = std::chrono::steady_clock::now();
  told.outcome = RunShown(*run, "simulating", options.json);
  told.real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  told.planned_step_s = PlannedStep(*run);
  told.wrong = Wrong(scenario, told.outcome);
  if (options.twice) {
    SKERRY_ASSIGN_OR_RETURN(auto again, MakeScenarioRun(scenario, run_options));
    const VirtualOutcome second = RunShown(*again, "simulating it again", options.json);
    if (second.trace_hash != told.outcome.trace_hash) {
      told.wrong.push_back("its second run had another trace");
    }
  }
  SKERRY_RETURN_IF_ERROR(CompareWithCalm(scenario, run_options, options.json, told));
  if (!options.trace.empty()) SKERRY_RETURN_IF_ERROR(trace.Write(options.trace));
  SKERRY_RETURN_IF_ERROR(WriteOutputs(options, {&scenario, run.get(), &told.outcome, &seen,
                                                options.seed, told.wrong, CommandOf(options)}));
  if (options.json) {
    std::printf("%s\n", ToJson(scenario, options, told).dump(2).c_str());
  } else {
    Print(scenario, options, told);
  }
  if (!told.wrong.empty()) return Internal("%s", told.wrong.front());
  return absl::OkStatus();
}

}  // namespace skerry
