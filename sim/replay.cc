#include "sim/replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "common/median.h"
#include "common/status.h"
#include "coordinator/run_state.h"
#include "pipeline/plan/outer_choice.h"
#include "pipeline/plan/planner.h"
#include "sim/run_report.h"
#include "sim/simulation.h"
#include "sim/virtual_run.h"

namespace skerry {
namespace {

// What the log does not say: bytes a second of a device's memory. A core's at least; the cards of
// sim/device_catalog.cc have one for every 75 to 200 FLOP/s.
constexpr double kMemoryBytesPerSMin = 2e10;
constexpr double kFlopsPerByte = 110;
constexpr double kLimitS = 4 * 3600;
constexpr int kFitRuns = 9;
// Of the time per byte of a reading; a smaller rest is no line.
constexpr double kLineShareMin = 0.5;
constexpr double kFitTolerance = 0.01;
constexpr double kShareMin = 0.02, kShareMax = 4;

// The node that reaches the others fastest: the coordinator is put beside it.
size_t MostCentral(const ReplayedRun& run) {
  size_t best = 0;
  double best_rtt = INFINITY;
  for (size_t from = 0; from < run.nodes.size(); ++from) {
    std::vector<double> rtts;
    for (size_t to = 0; to < run.nodes.size(); ++to)
      if (from != to) rtts.push_back(run.links.at({from, to}).rtt_s);
    const double rtt = UpperMedian(std::move(rtts));
    if (rtt >= best_rtt) continue;
    best = from;
    best_rtt = rtt;
  }
  return best;
}

// What the node's fastest flow out (or in) gets; 0, no limit, if that is of one of them.
double LineOf(const ReplayedRun& run, size_t node, bool out) {
  double fastest = 0;
  for (size_t other = 0; other < run.nodes.size(); ++other) {
    if (other == node) continue;
    const double rate = LineRateOf(out ? run.links.at({node, other}) : run.links.at({other, node}));
    if (rate == 0) return 0;
    fastest = std::max(fastest, rate);
  }
  return fastest;
}

PathSpec PathOf(const ReplayedRun& run, size_t from, size_t to) {
  PathSpec path;
  path.one_way = Duration::Micros(250);
  if (from == to) return path;
  const ReplayLink& link = run.links.at({from, to});
  path.one_way = Duration::Seconds(link.rtt_s / 2);
  path.flow_bytes_per_s = LineRateOf(link);
  return path;
}

// A region for the coordinator and one for every node, so that every pair has its own path.
NetworkSpec NetworkOf(const ReplayedRun& run) {
  const size_t count = run.nodes.size() + 1;
  const size_t beside = MostCentral(run);
  NetworkSpec network;
  network.paths.resize(count * count);
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      network.paths[from * count + to] =
          PathOf(run, from == 0 ? beside : from - 1, to == 0 ? beside : to - 1);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    network.regions.push_back(i == 0 ? "coordinator" : run.nodes[i - 1].id);
    network.site_of_node.push_back(static_cast<int32_t>(i));
    SiteSpec site;
    site.name = network.regions.back();
    site.region = static_cast<int32_t>(i);
    if (run.shared_lines && i > 0) {
      site.up_bytes_per_s = LineOf(run, i - 1, true);
      site.down_bytes_per_s = LineOf(run, i - 1, false);
    }
    network.sites.push_back(site);
  }
  return network;
}

VirtualRunOptions OptionsOf(const ReplayedRun& run, int64_t steps, uint64_t seed) {
  VirtualRunOptions options;
  options.config = run.config;
  const int64_t period = FirstOuter(run.config).inner_steps;
  options.config.steps = std::max<int64_t>((steps + period - 1) / period, 1) * period;
  options.seed = seed;
  options.network = NetworkOf(run);
  options.limit = Duration::Seconds(kLimitS);
  for (size_t i = 0; i < run.nodes.size(); ++i) {
    const ReplayNode& node = run.nodes[i];
    VirtualNode virtual_node;
    virtual_node.region = node.region;
    virtual_node.device = {node.device, "simulated", node.gflops * run.device_share, 0};
    virtual_node.device.spreads = true;  // as every node of this version
    virtual_node.memory_bytes_per_s =
        std::max(kMemoryBytesPerSMin, node.gflops * 1e9 / kFlopsPerByte) * run.device_share;
    virtual_node.joins = Instant() + Duration::Millis(20) * static_cast<int64_t>(i + 1);
    options.nodes.push_back(std::move(virtual_node));
  }
  return options;
}

// What the planner makes of the run under `config`.
absl::StatusOr<PlannedRun> PlanOf(const ReplayedRun& run, const VirtualRunOptions& options,
                                  const RunConfig& config) {
  PlannerInput input;
  input.config = config;
  for (size_t i = 0; i < run.nodes.size(); ++i) {
    input.nodes.push_back(VirtualRun::node(static_cast<int32_t>(i)));
    input.devices[input.nodes.back()] = options.nodes[i].device;
    input.regions[input.nodes.back()] = run.nodes[i].region;
  }
  input.links = LinkMatrix(input.nodes);
  for (const auto& [ends, link] : run.links) {
    input.links.Set(input.nodes[ends.first], input.nodes[ends.second], link.rtt_s,
                    link.bytes_per_s);
  }
  return MakePlan(input);
}

bool SameCut(const PipelinePlan& a, const PipelinePlan& b) {
  return std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                    [](const StageAssignment& x, const StageAssignment& y) {
                      return x.first_layer == y.first_layer && x.last_layer == y.last_layer &&
                             x.replicas.size() == y.replicas.size();
                    });
}

// Puts every node where it was. False if the plan has not as many slots in every stage.
bool PutBack(const ReplayedRun& run, PipelinePlan& plan) {
  const std::vector<ReportStage>& before = run.report.stages;
  if (before.size() != plan.stages.size()) return false;
  PipelinePlan put = plan;
  for (size_t stage = 0; stage < before.size(); ++stage) {
    StageAssignment& assignment = put.stages[stage];
    if (assignment.replicas.size() != before[stage].replicas.size()) return false;
    assignment.first_layer = static_cast<int32_t>(before[stage].first_layer);
    assignment.last_layer = static_cast<int32_t>(before[stage].last_layer);
    for (size_t r = 0; r < assignment.replicas.size(); ++r) {
      const auto node = std::find_if(run.nodes.begin(), run.nodes.end(), [&](const ReplayNode& n) {
        return n.id == before[stage].replicas[r];
      });
      if (node == run.nodes.end()) return false;
      assignment.replicas[r] = VirtualRun::node(static_cast<int32_t>(node - run.nodes.begin()));
    }
  }
  plan = std::move(put);
  return true;
}

// The coordinator begins with everybody admitted and the plan made.
absl::StatusOr<bool> AddHistory(const ReplayedRun& run, VirtualRunOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(PlannedRun planned, PlanOf(run, options, options.config));
  bool same_cut = !run.other_nodes;
  if (same_cut && run.config != run.measured_config) {
    SKERRY_ASSIGN_OR_RETURN(const PlannedRun usual, PlanOf(run, options, run.measured_config));
    same_cut = SameCut(planned.plan, usual.plan);
  }
  const bool as_it_was = same_cut && PutBack(run, planned.plan);
  for (size_t i = 0; i < options.nodes.size(); ++i) {
    const VirtualNode& node = options.nodes[i];
    options.history.push_back(
        AdmittedRecord(VirtualRun::node(static_cast<int32_t>(i)),
                       {"simulated", node.region, "simulated", node.device, true, false, "", {}}));
  }
  options.history.push_back(
      PlanRecord(planned.plan, planned.predicted_step_s, planned.lower_bound_s));
  return as_it_was;
}

}  // namespace

double LineRateOf(const ReplayLink& link) {
  const double s_per_byte = 1 / link.bytes_per_s;
  const double line_s_per_byte = s_per_byte - SimulatedNetwork().options.host_s_per_byte;
  return line_s_per_byte < kLineShareMin * s_per_byte ? 0 : 1 / line_s_per_byte;
}

ReplayFigures FiguresOf(const RunReport& report) {
  ReplayFigures figures;
  std::vector<double> steps, transfers;
  double before = report.planned_s.value_or(0);
  std::optional<int64_t> last;
  for (const auto& [step, ended_s] : report.step_ended_s) {
    // A line of a long log may stand for several steps.
    const int64_t count = std::max<int64_t>(1, step - last.value_or(step - 1));
    steps.push_back((ended_s - before) / static_cast<double>(count));
    before = std::max(before, ended_s);
    last = step;
  }
  figures.step_s = UpperMedian(std::move(steps));
  const double training_s = before - report.planned_s.value_or(0);
  if (training_s > 0) figures.tokens_per_s = static_cast<double>(report.tokens) / training_s;
  for (const ReportRound& round : report.rounds) transfers.push_back(round.transfer_s);
  figures.round_transfer_s = UpperMedian(std::move(transfers));
  figures.hidden_fraction = report.hidden_fraction.value_or(1);
  if (report.bytes_up && report.tokens > 0) {
    figures.bytes_per_token =
        static_cast<double>(*report.bytes_up) / static_cast<double>(report.tokens);
  }
  if (!report.finished) figures.wrong = "it has not finished";
  return figures;
}

ReplayFigures Simulate(const ReplayedRun& run, int64_t steps, uint64_t seed,
                       const OnShare& on_share) {
  ReplayFigures figures;
  VirtualRunOptions options = OptionsOf(run, steps, seed);
  const auto as_it_was = AddHistory(run, options);
  if (!as_it_was.ok()) {
    figures.wrong = "there is no plan: " + ErrorText(as_it_was.status());
    return figures;
  }
  VirtualRun simulated(std::move(options));
  StepShare share(simulated, on_share);
  const VirtualOutcome outcome = simulated.Run();
  figures = FiguresOf(ReportOf(simulated));
  figures.planned_anew = !*as_it_was;
  if (!outcome.finished) figures.wrong = "it did not finish: " + outcome.ended;
  if (!outcome.violations.empty()) {
    figures.wrong = outcome.violations.front().rule + ": " + outcome.violations.front().what;
  }
  return figures;
}

// The step grows as the share falls, a little less than in proportion: the network's part stays.
double FitDeviceShare(const ReplayedRun& run, double step_s, int64_t steps, uint64_t seed,
                      const OnShare& on_share) {
  ReplayedRun tried = run;
  double low = kShareMin, high = kShareMax;
  double share = 1;
  for (int i = 0; i < kFitRuns && step_s > 0; ++i) {
    tried.device_share = share;
    const ReplayFigures figures = Simulate(tried, steps, seed, [&](double done) {
      if (on_share) on_share((i + done) / kFitRuns);
    });
    if (!figures.wrong.empty() || figures.step_s <= 0) break;
    const double ratio = figures.step_s / step_s;
    if (std::abs(ratio - 1) < kFitTolerance) break;
    (ratio > 1 ? low : high) = share;
    const double guess = share * ratio;
    share = guess > low && guess < high ? guess : std::sqrt(low * high);
  }
  return share;
}

}  // namespace skerry
