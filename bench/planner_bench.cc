// The planner against SkipPipe's own scheduler on SkipPipe's own cases, by SkipPipe's own
// simulator: iteration time of ours over theirs after 10 s of one core, processor time to their
// quality, and the gap to the bound. Their times come from runs of the published code
// (tests/routing/data).
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "routing/joint_bound.h"
#include "routing/joint_search.h"
#include "sim/skippipe_case.h"

namespace skerry::bench {
namespace {

constexpr double kBudgetSeconds = 10;
constexpr double kNever = std::numeric_limits<double>::infinity();

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Measured {
  double ratio = kNever;  // our iteration over SkipPipe's, both by its simulator
  double gap = kNever;
  double to_quality_s = kNever;
  double against_full = 0;  // saved of the full, unskipped pipeline
};

Measured Measure(const SkipPipeCase& from, JointMode mode) {
  const double theirs = from.Find("ca")->expected_s;
  const double start = ProcessorSeconds();
  Measured measured;
  JointOptions options;
  options.mode = mode;
  options.evaluations = std::numeric_limits<int64_t>::max();
  options.should_stop = [&] { return ProcessorSeconds() - start > kBudgetSeconds; };
  options.on_better = [&](const JointPlan& plan) {
    if (measured.to_quality_s == kNever && plan.simulator_s <= theirs) {
      measured.to_quality_s = ProcessorSeconds() - start;
    }
  };
  const double bound = mode == JointMode::kStrict ? EqualLoadBound(from.problem, from.partitions)
                                                  : AnyPlanBound(from.problem);
  const auto plan = SearchJointly(from.problem, from.partitions, options);
  if (!plan.ok()) return measured;
  measured.ratio = plan->simulator_s / theirs;
  measured.gap = plan->score() / bound - 1;
  measured.against_full = 1 - plan->simulator_s / from.Find("baseline")->expected_s;
  return measured;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void MeasureMode(Bench& bench, const std::vector<SkipPipeCase>& cases, JointMode mode) {
  const bool strict = mode == JointMode::kStrict;
  const std::string name = strict ? "strict" : "full";
  double logs = 0;
  std::vector<double> gaps;
  for (const SkipPipeCase& from : cases) {
    const Measured measured = Measure(from, mode);
    const std::string what = name + " " + from.name.substr(0, 28);
    bench.AtMost(what, measured.ratio, "x SkipPipe", strict ? 1.01 : 0.91);
    if (strict) {
      bench.Record("  time to SkipPipe's quality", measured.to_quality_s, "s");
    } else {
      bench.AtMost("  time to SkipPipe's quality", measured.to_quality_s, "s", 1);
      bench.Record("  shorter than the full pipeline", 100 * measured.against_full, "%");
    }
    bench.Record("  gap to the bound", 100 * measured.gap, "%");
    logs += std::log(measured.ratio);
    gaps.push_back(100 * measured.gap);
  }
  bench.AtMost(name + ": geometric mean, 10 s", std::exp(logs / static_cast<double>(cases.size())),
               "x SkipPipe", strict ? 0.87 : 0.78);
  bench.AtMost(name + ": median gap to the bound", Median(gaps), "%", 25);
}

int Run(int argc, char** argv) {
  Bench bench("planner", argc, argv);
  std::vector<SkipPipeCase> cases;
  for (const char* name :
       {"gcp12_20n_6s_skip33_shipped", "v1_aws11_18n_4s_skip25", "gcp12_20n_6s_skip33_500M"}) {
    auto from = ReadSkipPipeCase(std::string(SKERRY_CASES) + "/" + name + ".json");
    if (!from.ok()) {
      std::fprintf(stderr, "%s\n", from.status().ToString().c_str());
      return 2;
    }
    cases.push_back(*std::move(from));
  }
  MeasureMode(bench, cases, JointMode::kStrict);
  MeasureMode(bench, cases, JointMode::kFull);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}
