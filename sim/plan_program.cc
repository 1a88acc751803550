#include "sim/plan_program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/cli_numbers_program.h"
#include "common/status.h"
#include "coordinator/run_templates.h"
#include "routing/joint_bound.h"
#include "routing/joint_search.h"
#include "sim/plan_comparison.h"
#include "sim/plan_report.h"
#include "sim/scenario.h"
#include "sim/skippipe_case.h"
#include "wire/config.h"

namespace skerry {
namespace {

struct Planned {
  JointPlan plan;
  double lower_bound_s = 0;
  double plan_s = 0;
  double gap() const { return plan.score() / lower_bound_s - 1; }
};

absl::StatusOr<Planned> Plan(const SkipPipeCase& from, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Planned planned;
  JointOptions search;
  search.mode = options.mode == "strict" ? JointMode::kStrict : JointMode::kFull;
  search.seed = options.seed;
  search.evaluations = std::numeric_limits<int64_t>::max();
  if (options.evaluations > 0) {
    search.evaluations = options.evaluations;
  } else {
    search.spent = [&] { return elapsed() / options.budget_s; };
  }
  planned.lower_bound_s = search.mode == JointMode::kStrict
                              ? EqualLoadBound(from.problem, from.partitions)
                              : AnyPlanBound(from.problem);
  SKERRY_ASSIGN_OR_RETURN(planned.plan, SearchJointly(from.problem, from.partitions, search));
  planned.plan_s = elapsed();
  return planned;
}

void PrintJson(const SkipPipeCase& from, const PlanOptions& options, const Planned& planned) {
  const SkipPipeReference* theirs = from.Find("ca");
  nlohmann::ordered_json json = {{"iteration_s", planned.plan.iteration_s},
                                 {"iteration_s_their_simulator", planned.plan.simulator_s},
                                 {"lower_bound_s", planned.lower_bound_s},
                                 {"plan_s", planned.plan_s},
                                 {"mode", options.mode},
                                 {"name", from.name},
                                 {"gap", planned.gap()}};
  json["skippipe_s"] = theirs ? nlohmann::ordered_json(theirs->expected_s) : nullptr;
  json["partitions"] = planned.plan.schedule.partitions;
  for (const SkipPipeMicrobatch& microbatch : planned.plan.schedule.microbatches) {
    json["microbatches"].push_back({{"path", microbatch.path},
                                    {"lane", microbatch.lane},
                                    {"wave", microbatch.wave},
                                    {"release_s", microbatch.release_s}});
  }
  std::printf("%s\n", json.dump().c_str());
}

void PrintText(const SkipPipeCase& from, const PlanOptions& options, const Planned& planned) {
  std::printf("%s, %s mode, planned in %.1f s\n", from.name.c_str(), options.mode.c_str(),
              planned.plan_s);
  std::printf("  iteration        %8.2f s, by SkipPipe's simulator %.2f s\n",
              planned.plan.iteration_s, planned.plan.simulator_s);
  std::printf("  at best          %8.2f s, gap %.1f %%\n", planned.lower_bound_s,
              100 * planned.gap());
  if (const SkipPipeReference* theirs = from.Find("ca")) {
    std::printf("  SkipPipe's plan  %8.2f s: ours takes %.3f of that\n", theirs->expected_s,
                planned.plan.simulator_s / theirs->expected_s);
  }
  for (size_t s = 0; s < planned.plan.schedule.partitions.size(); ++s) {
    std::printf("  stage %zu: nodes", s);
    for (const int32_t node : planned.plan.schedule.partitions[s]) std::printf(" %d", node);
    std::printf("\n");
  }
}

absl::Status RunTopology(const PlanOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const Scenario scenario, LoadScenario(options.topology));
  RunConfig run = scenario.run;
  if (!options.run.empty()) {
    SKERRY_ASSIGN_OR_RETURN(run, LoadRunConfig(options.run));
  }
  if (!options.template_name.empty()) {
    SKERRY_ASSIGN_OR_RETURN(run, TemplateNamed(options.template_name, options.vocab));
  }
  ComparisonOptions asked;
  asked.strategies = options.strategies;
  asked.budget_s = options.budget_s;
  asked.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  if (std::find(asked.strategies.begin(), asked.strategies.end(), "all") !=
      asked.strategies.end()) {
    asked.strategies.assign(std::begin(kStrategyNames), std::end(kStrategyNames));
  }
  SKERRY_ASSIGN_OR_RETURN(const PlanComparison comparison, ComparePlans(scenario, run, asked));
  if (!options.template_name.empty() && !options.json) {
    std::printf("%s", TemplateText(run).c_str());
  }
  std::printf("%s\n", (options.json ? PlanJson(comparison) : PlanText(comparison)).c_str());
  if (options.report.empty()) return absl::OkStatus();
  return WritePlanPage(comparison, options.report);
}

}  // namespace

CLI::App* AddPlanCommand(CLI::App& app, PlanOptions& options) {
  CLI::App* command =
      app.add_subcommand("plan", "what the coordinator would plan for a scenario, and others");
  auto* topology =
      command->add_option("topology", options.topology, "scenario.toml or its directory");
  auto* own =
      command->add_option("--run", options.run, "run.toml instead of the scenario's own run")
          ->needs(topology);
  command
      ->add_option("--template", options.template_name,
                   "or a run that skerry-coordinator init --template makes")
      ->check(CLI::IsMember(TemplateNames()))
      ->needs(topology)
      ->excludes(own);
  command->add_option("--vocab", options.vocab, "of its tokenizer")->capture_default_str();
  std::vector<std::string> names(std::begin(kStrategyNames), std::end(kStrategyNames));
  names.insert(names.end(), {"skerry", "all"});
  command
      ->add_option("--strategy", options.strategies,
                   "also as these would: in-order, dt-fm, swarm, skippipe, skippipe-even, or all")
      ->check(CLI::IsMember(names))
      ->needs(topology);
  command->add_option("--report", options.report, "write a page with charts here")->needs(topology);
  command->add_option("--skippipe", options.skippipe_case, "a SkipPipe case, JSON, instead")
      ->excludes(topology);
  command->add_option("--mode", options.mode, "strict: its placement, equal loads; full: any")
      ->check(CLI::IsMember({"strict", "full"}))
      ->capture_default_str();
  command
      ->add_option(
          "--budget", options.budget_s,
          "seconds of a search, of the baselines and of --skippipe; Skerry's own planner has a "
          "fixed budget, as in the coordinator")
      ->check(NumberIn(0.001, 1e6))
      ->capture_default_str();
  command
      ->add_option("--evaluations", options.evaluations,
                   "search that many schedules instead: repeats exactly")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", options.seed, "of the search")->capture_default_str();
  command->add_flag("--json", options.json, "one JSON object");
  return command;
}

absl::Status RunPlan(const PlanOptions& options) {
  if (!options.topology.empty()) return RunTopology(options);
  if (options.skippipe_case.empty()) {
    return InvalidArgument("plan: want a topology (scenario.toml) or --skippipe CASE.json");
  }
  SKERRY_ASSIGN_OR_RETURN(const SkipPipeCase from, ReadSkipPipeCase(options.skippipe_case));
  SKERRY_ASSIGN_OR_RETURN(const Planned planned, Plan(from, options));
  if (options.json) {
    PrintJson(from, options, planned);
  } else {
    PrintText(from, options, planned);
  }
  return absl::OkStatus();
}

}  // namespace skerry
