// The planner beside its goals: against SkipPipe's own scheduler on SkipPipe's own cases by
// SkipPipe's own simulator, against DT-FM on its environments by its cost, and what a plan of 20,
// 100 and 1,000 nodes takes. Times of the others come from runs of their published code
// (tests/routing/data, sim/dtfm_environments.h). All seconds are processor seconds of one core.
//
// --quick: 2 s instead of 10 a search, no 1,000 nodes; the goals stay.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/emulated_run.h"
#include "bench/planner_cases.h"
#include "bench/statistics.h"
#include "pipeline/plan/plan_model.h"
#include "pipeline/plan/validate.h"
#include "routing/joint_bound.h"
#include "routing/joint_search.h"
#include "routing/placement.h"
#include "routing/skippipe_search.h"
#include "routing/skippipe_simulator.h"
#include "sim/dtfm_environments.h"
#include "sim/skippipe_case.h"

namespace skerry::bench {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Timed {
  JointPlan plan;
  double to_quality_s = kNever;  // until no slower than `theirs`
};

Timed Search(const SkipPipeProblem& problem, const std::vector<std::vector<int32_t>>& partitions,
             JointMode mode, double seconds, double theirs = 0) {
  Timed timed;
  const double start = ProcessorSeconds();
  JointOptions options;
  options.mode = mode;
  options.evaluations = std::numeric_limits<int64_t>::max();
  options.spent = [&] { return (ProcessorSeconds() - start) / seconds; };
  options.on_better = [&](const JointPlan& plan) {
    if (timed.to_quality_s == kNever && plan.score() <= theirs) {
      timed.to_quality_s = ProcessorSeconds() - start;
    }
  };
  auto plan = SearchJointly(problem, partitions, options);
  if (plan.ok()) timed.plan = *std::move(plan);
  return timed;
}

// What of the full pipeline's time a plan with skipping must save, and one without.
double SavedGoal(const SkipPipeCase& from) {
  if (from.problem.stages() == 4) return 51;
  return from.problem.forward_s.front() < 1 ? 69 : 58;
}
double UnskippedGoal(const SkipPipeCase& from) {
  return from.problem.stages() == 4 ? 22 : 30;
}

void MeasureMode(Bench& bench, const std::vector<SkipPipeCase>& cases, JointMode mode,
                 double seconds) {
  const bool strict = mode == JointMode::kStrict;
  const std::string name = strict ? "strict" : "full";
  double logs = 0;
  double bound_logs = 0;
  std::vector<double> gaps;
  for (const SkipPipeCase& from : cases) {
    const double theirs = from.Find("ca")->expected_s;
    const double bound =
        strict ? EqualLoadBound(from.problem, from.partitions) : AnyPlanBound(from.problem);
    const Timed timed = Search(from.problem, from.partitions, mode, seconds, theirs);
    const double ratio = timed.plan.score() / theirs;
    bench.AtMost(name + " " + from.name.substr(0, 28), ratio, "x SkipPipe", strict ? 1.01 : 0.91);
    if (strict) {
      bench.Record("  time to SkipPipe's quality", timed.to_quality_s, "s");
    } else {
      bench.AtMost("  time to SkipPipe's quality", timed.to_quality_s, "s", 1);
      const double saved = 1 - timed.plan.score() / from.Find("baseline")->expected_s;
      bench.AtLeast("  shorter than the full pipeline", 100 * saved, "%", SavedGoal(from));
    }
    gaps.push_back(100 * (timed.plan.score() / bound - 1));
    bench.Record("  gap to the bound", gaps.back(), "%");
    logs += std::log(ratio);
    bound_logs += std::log(bound / theirs);
  }
  bench.AtMost(name + ": geometric mean", std::exp(logs / static_cast<double>(cases.size())),
               "x SkipPipe", strict ? 0.87 : 0.78);
  bench.Record("  no plan is below", std::exp(bound_logs / static_cast<double>(cases.size())),
               "x SkipPipe");
  bench.AtMost(name + ": median gap to the bound", Median(gaps), "%", 25);
}

void MeasureOthers(Bench& bench, const std::vector<SkipPipeCase>& cases, double seconds) {
  for (const SkipPipeCase& from : cases) {
    SkipPipeProblem unskipped = from.problem;
    unskipped.path_length = unskipped.stages();
    const Timed timed = Search(unskipped, from.partitions, JointMode::kFull, seconds);
    const double saved = 1 - timed.plan.score() / from.Find("baseline")->expected_s;
    bench.AtLeast("nothing skipped, " + from.name.substr(0, 24), 100 * saved, "% saved",
                  UnskippedGoal(from));
  }
  const SkipPipeProblem clusters = FiveClusters();
  const double soon = Search(clusters, {}, JointMode::kFull, 2).plan.score();
  const double late = Search(clusters, {}, JointMode::kFull, 10).plan.score();
  bench.AtMost("five clusters, 2 s of search", soon / late, "x 10 s", 1.1);
  bench.Record("  gap to the bound", 100 * (soon / AnyPlanBound(clusters) - 1), "%");
}

// SkipPipe's rules: its placement, equal loads; both sides get the same search for the paths.
void MeasureLognormal(Bench& bench) {
  std::vector<double> better;
  for (const uint64_t seed : {1, 2, 3}) {
    const SkipPipeProblem problem = Lognormal(seed);
    const auto placed = PlaceLikeSkipPipe(problem, {});
    if (!placed.ok()) return;
    const double equal = Search(problem, *placed, JointMode::kStrict, 4).plan.score();
    const double free = Search(problem, {}, JointMode::kFull, 4).plan.score();
    better.push_back(100 * (1 - free / equal));
  }
  bench.AtLeast("lognormal speeds, asymmetric uplinks", Median(better), "% better", 25);
}

// Cases that nobody tuned for: the search beside its bounds, and beside our copy of SkipPipe's own
// scheduler where that finds a plan.
void MeasureUnseen(Bench& bench, double seconds) {
  constexpr uint64_t kDrawn = 12;
  constexpr double kTheirsSecondsMax = 6;
  std::vector<double> full_gaps;
  std::vector<double> strict_gaps;
  double full_logs = 0;
  double strict_logs = 0;
  double compared = 0;
  for (uint64_t seed = 1; seed <= kDrawn; ++seed) {
    const SkipPipeProblem problem = GeoDistributed(seed);
    const auto placed = PlaceLikeSkipPipe(problem, {});
    if (!placed.ok()) continue;
    const double full = Search(problem, *placed, JointMode::kFull, seconds).plan.score();
    const double strict = Search(problem, *placed, JointMode::kStrict, seconds).plan.score();
    full_gaps.push_back(100 * (full / AnyPlanBound(problem) - 1));
    strict_gaps.push_back(100 * (strict / EqualLoadBound(problem, *placed) - 1));
    const double start = ProcessorSeconds();
    SkipPipeSearchOptions routing;
    routing.should_stop = [&] { return ProcessorSeconds() - start > kTheirsSecondsMax; };
    const auto routed = RouteLikeSkipPipe(problem, *placed, routing);
    if (!routed.ok()) continue;
    const double theirs = SkipPipeSimulator(problem).IterationSeconds(*routed);
    full_logs += std::log(full / theirs);
    strict_logs += std::log(strict / theirs);
    ++compared;
  }
  const std::string drawn = std::to_string(full_gaps.size()) + " drawn cases, ";
  bench.Record(drawn + "full: median gap", Median(full_gaps), "%");
  bench.Record(drawn + "strict: median gap", Median(strict_gaps), "%");
  if (compared == 0) return;
  const std::string routed = std::to_string(static_cast<int>(compared)) + " of them routed, ";
  bench.Record(routed + "full", std::exp(full_logs / compared), "x SkipPipe");
  bench.Record(routed + "strict", std::exp(strict_logs / compared), "x SkipPipe");
}

void MeasureDtfm(Bench& bench) {
  for (const DtfmEnvironment& environment : DtfmEnvironments()) {
    const DtfmProblem problem = DtfmProblemOf(environment);
    const double start = ProcessorSeconds();
    DtfmOptions options;
    options.evaluations = 40000;
    const auto plan = SearchDtfm(problem, options);
    const double took = ProcessorSeconds() - start;
    const double cost = plan.ok() ? plan->cost_s() : kNever;
    // Equal but for rounding.
    bench.AtMost(std::string("DT-FM ") + environment.name, cost / environment.reached_s,
                 "x its cost", 1 + 1e-9);
    bench.AtMost("  time", took, "s", 1);
  }
}

// Of a placement of these nodes as the links and speeds of `truth` have it.
double SecondsOn(const PlannerInput& truth, const PipelinePlan& plan) {
  const auto model = ModelOf(truth, plan);
  if (!model.ok()) return kNever;
  const double step_s =
      Evaluator(model->problem.workload, model->problem.fleet).StepSeconds(model->placement);
  return step_s + ExposedSeconds(model->problem, model->placement, step_s);
}

// What noise of the measurements costs: plans made on noisy ones, run on the true ones, beside
// plans made on the true ones.
void MeasureNoise(Bench& bench) {
  constexpr double kRateSigma = 0.2;
  constexpr double kSpeedSigma = 0.1;
  double logs = 0;
  int fleets = 0;
  for (int32_t nodes = 8; nodes < 20; ++nodes, ++fleets) {
    PlannerInput truth = WorldWide(nodes);
    truth.config.nodes_min = nodes;
    PlannerInput noisy = truth;
    Rng rng(static_cast<uint64_t>(nodes), "noise of measurements");
    for (auto& [node, device] : noisy.devices) {
      device.name.clear();  // every node by itself
      device.gflops *= std::exp(kSpeedSigma * rng.Normal());
    }
    for (int32_t i = 0; i < nodes; ++i) {
      for (int32_t j = 0; j < nodes; ++j) {
        if (i != j) noisy.links.At(i, j).bytes_per_s *= std::exp(kRateSigma * rng.Normal());
      }
    }
    const auto blurred = MakePlan(noisy);
    const auto sharp = MakePlan(truth);
    if (!blurred.ok() || !sharp.ok()) return;
    logs += std::log(SecondsOn(truth, blurred->plan) / SecondsOn(truth, sharp->plan));
  }
  bench.Record("12 fleets measured with noise", std::exp(logs / fleets), "x measured well");
}

void MeasureFleet(Bench& bench, int32_t nodes, double plan_goal_s, double repair_goal_s) {
  const PlannerInput input = WorldWide(nodes);
  double start = ProcessorSeconds();
  const auto planned = MakePlan(input);
  const double took = ProcessorSeconds() - start;
  if (!planned.ok()) {
    std::fprintf(stderr, "%s\n", planned.status().ToString().c_str());
    return bench.AtMost(std::to_string(nodes) + " nodes: no plan", kNever, "s", plan_goal_s);
  }
  bench.AtMost(std::to_string(nodes) + " nodes: plan", took, "s", plan_goal_s);
  bench.Record("  gap to the bound", 100 * (planned->predicted_step_s / planned->lower_bound_s - 1),
               "%");
  start = ProcessorSeconds();
  const auto repaired = RepairPlan(planned->plan, {planned->plan.stages.back().replicas.front()},
                                   planned->plan.version + 1);
  const double repair_s = ProcessorSeconds() - start;
  bench.AtMost("  repair after a leave", repaired.ok() ? 1e3 * repair_s : kNever, "ms",
               1e3 * repair_goal_s);
  if (nodes == 20) {
    const Unevenness worst = WorstParticipation(planned->plan);
    bench.AtMost("  participation, any 100 steps", worst.stages, "max/min", kParticipationRatioMax);
    bench.AtMost("  replicas of a stage, likewise", worst.replicas, "max/min",
                 kParticipationRatioMax);
  }
}

// The real programs over shaped packets, in the demo's topology.
void MeasurePrediction(Bench& bench) {
  const RunFigures real = RunBoth(ProgramsDirectory(), IterationScenario(48), 8).real;
  std::printf("  emulated: %.3f s a step (%zu steps), predicted %.3f s\n", real.step_s, real.steps,
              real.predicted_s);
  bench.AtMost("predicted against emulated iteration time",
               100 * std::abs(real.predicted_s / real.step_s - 1), "% off", 10);
}

int Run(int argc, char** argv) {
  bool quick = false;
  std::string only;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else {
      rest.push_back(argv[i]);
    }
  }
  Bench bench("planner", static_cast<int>(rest.size()), rest.data());
  std::vector<SkipPipeCase> cases;
  for (const char* name :
       {"gcp12_20n_6s_skip33_shipped", "v1_aws11_18n_4s_skip25", "gcp12_20n_6s_skip33_500M"}) {
    auto from = ReadSkipPipeCase(std::string(SKERRY_CASES) + "/" + name + ".json");
    MustBeOk(from.status());
    cases.push_back(*std::move(from));
  }
  const double seconds = quick ? 2 : 10;
  const std::vector<std::pair<const char*, std::function<void()>>> parts = {
      {"strict", [&] { MeasureMode(bench, cases, JointMode::kStrict, seconds); }},
      {"full", [&] { MeasureMode(bench, cases, JointMode::kFull, seconds); }},
      {"others", [&] { MeasureOthers(bench, cases, seconds); }},
      {"lognormal", [&] { MeasureLognormal(bench); }},
      {"unseen", [&] { MeasureUnseen(bench, quick ? 1 : 3); }},
      {"dtfm", [&] { MeasureDtfm(bench); }},
      {"noise", [&] { MeasureNoise(bench); }},
      {"20", [&] { MeasureFleet(bench, 20, 2, 0.05); }},
      {"100", [&] { MeasureFleet(bench, 100, 15, 0.2); }},
      {"1000", [&] { MeasureFleet(bench, 1000, 120, 2); }},
      {"prediction", [&] { MeasurePrediction(bench); }}};
  for (const auto& [name, part] : parts) {
    const bool is_long =
        quick && (std::strcmp(name, "1000") == 0 || std::strcmp(name, "prediction") == 0);
    if (only.empty() ? !is_long : only == name) part();
  }
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
