#include "pipeline/plan/batch_shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "pipeline/plan/contestants.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/round_bytes.h"
#include "pipeline/plan/workload.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr int32_t kNominalSteps = 4;
constexpr int32_t kMicrobatchesMax = 1024;  // a step; more are no better and take long to predict

double RoundedToPower(double value) {
  return std::pow(kNominalRatio, std::round(std::log(value) / std::log(kNominalRatio)));
}

// Of an even number of values the geometric mean of the middle two: no coin is tossed.
double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return std::sqrt(values[(n - 1) / 2] * values[n / 2]);
}

std::vector<int32_t> Divisors(int32_t number) {
  std::vector<int32_t> divisors;
  for (int32_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// 1, 2, 3, 4, 6, 8, 12, 16, …
std::vector<int32_t> Windows(int32_t most) {
  std::vector<int32_t> windows;
  for (int32_t power = 1; power <= most; power *= 2) {
    windows.push_back(power);
    if (power >= 2 && power * 3 / 2 <= most) windows.push_back(power * 3 / 2);
  }
  return windows;
}

Fleet FleetOf(const NominalFleet& nominal, double payload, double message_s) {
  const size_t n = nominal.gflops.size();
  Fleet fleet;
  fleet.gflops = nominal.gflops;
  fleet.latency_s.assign(n * n, nominal.rtt_s / 2);
  fleet.wire_s.assign(n * n, payload / nominal.bytes_per_s + message_s);
  fleet.handling_s = payload * kHandlingSecondsPerByte * (message_s / kMessageSeconds);
  return fleet;
}

// The most that a node of it holds.
int64_t LargestNeed(const RunConfig& config, const Partition& partition,
                    const std::vector<MemoryOffer>& offers) {
  int64_t most = 0;
  size_t slot = 0;
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const StageShape& shape = partition.stages[stage];
    std::vector<MemoryOffer> of_stage;
    for (int32_t r = 0; r < shape.replicas; ++r, ++slot)
      of_stage.push_back(offers[static_cast<size_t>(partition.nodes[slot])]);
    const bool ends = stage == 0;
    const StageHolds holds = HoldsOf(config, partition.stages[0].replicas, shape.replicas, ends);
    for (const MemoryOffer& offer : LeastOffers(of_stage)) {
      const StageHolds fitted = FittedHolds(config, shape.layers(), ends, holds, offer);
      const NodeMemory memory = MemoryIn(config, shape.layers(), ends, fitted, offer);
      most = std::max(most, memory.each.needed());
    }
  }
  return most;
}

struct Tried {
  RunConfig config;
  double step_s = 0;
  int64_t memory_bytes = 0;
};

// With the outer traffic that is not hidden; where that is the planner's to choose, it chooses what
// is.
double Predict(const RunConfig& config, const NominalFleet& nominal, const Partition& partition) {
  const auto payload = static_cast<double>(BoundaryBytes(config));
  PlacementProblem problem;
  problem.workload = WorkloadOf(config, partition, PathsOf(config, partition), kNominalSteps);
  problem.fleet = FleetOf(nominal, payload, nominal.message_s);
  PutOff(config, partition, nominal.offers, &problem.fleet);
  const double step_s = Evaluator(problem.workload, problem.fleet).StepSeconds(partition.nodes);
  const OuterConfig& outer = config.outer;
  if (outer.inner_steps < 1 || outer.overlap_steps < 0 || outer.tier == OuterTier::kAuto) {
    return step_s;
  }
  problem.fleet = FleetOf(nominal, payload, 0);
  problem.outer.inner_steps = outer.inner_steps;
  problem.outer.overlap_steps = HidingSteps(outer);
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    ChargeRounds(config, partition.stages[stage].layers(), stage == 0, &problem.outer);
  }
  return step_s + ExposedSeconds(problem, partition.nodes, step_s);
}

// Every complete configuration there is to try.
std::vector<RunConfig> Candidates(const RunConfig& config) {
  const PipelineConfig& given = config.pipeline;
  std::vector<RunConfig> cuts;
  if (given.sequences_per_microbatch > 0) {
    cuts.push_back(config);
  } else {
    for (const int32_t sequences : Divisors(given.sequences_per_step)) {
      RunConfig cut = config;
      cut.pipeline.sequences_per_microbatch = sequences;
      cut.pipeline.microbatches_per_step = given.sequences_per_step / sequences;
      cut.pipeline.sequences_per_step = 0;
      const bool too_many = cut.pipeline.microbatches_per_step > kMicrobatchesMax;
      if (!too_many || sequences == given.sequences_per_step) cuts.push_back(cut);
    }
  }
  if (given.in_flight > 0) return cuts;
  std::vector<RunConfig> all;
  for (const RunConfig& cut : cuts) {
    for (const int32_t window : Windows(std::min(kWindowMax, cut.pipeline.microbatches_per_step))) {
      all.push_back(cut);
      all.back().pipeline.in_flight = window;
    }
  }
  return all;
}

std::string Why(const RunConfig& given, const Tried& best, size_t tried, size_t fitting) {
  const PipelineConfig& pipeline = best.config.pipeline;
  std::string text;
  if (given.pipeline.sequences_per_microbatch == 0) {
    text = absl::StrFormat("%d sequences a step as %d microbatches of %d; ",
                           given.pipeline.sequences_per_step, pipeline.microbatches_per_step,
                           pipeline.sequences_per_microbatch);
  }
  return text + absl::StrFormat(
                    "a window of %d; of %d shapes %d fit the memory, this one takes %.3f s on the "
                    "nominal fleet and at most %s a node\n",
                    pipeline.in_flight, tried, fitting, best.step_s, BytesText(best.memory_bytes));
}

}  // namespace

bool IsBatchOpen(const RunConfig& config) {
  return config.pipeline.sequences_per_microbatch == 0 || config.pipeline.in_flight == 0;
}

NominalFleet NominalOf(const std::vector<double>& gflops, const std::vector<MemoryOffer>& offers,
                       const LinkMatrix& links, double message_s) {
  NominalFleet fleet;
  fleet.offers = offers;
  const double median = MedianOf(gflops);
  // Powers of two, so that a fleet on which all takes twice as long has the same bits but for that.
  const double base = std::exp2(std::round(std::log2(median)));
  for (const int32_t speed : SpeedClasses(gflops)) {
    fleet.gflops.push_back(base * std::pow(kSpeedClassRatio, speed));
  }
  std::vector<double> round_trips, rates;
  for (int32_t i = 0; i < links.size(); ++i) {
    for (int32_t j = 0; j < links.size(); ++j) {
      if (i == j || !links.At(i, j).usable()) continue;
      round_trips.push_back(std::max(links.At(i, j).rtt_s, 1e-6));
      rates.push_back(links.At(i, j).bytes_per_s);
    }
  }
  const double rtt_s = round_trips.empty() ? 0 : MedianOf(std::move(round_trips));
  const double rate = rates.empty() ? 1e9 : MedianOf(std::move(rates));
  fleet.rtt_s = rtt_s == 0 ? 0 : RoundedToPower(rtt_s * median) / base;
  fleet.bytes_per_s = RoundedToPower(rate / median) * base;
  fleet.message_s = RoundedToPower(message_s * median) / base;
  return fleet;
}

absl::StatusOr<double> NominalStepSeconds(const RunConfig& config, const NominalFleet& fleet) {
  SKERRY_ASSIGN_OR_RETURN(const Partition partition,
                          MakePartition(config, fleet.gflops, fleet.offers));
  return Predict(config, fleet, partition);
}

absl::StatusOr<BatchShape> ChooseBatch(const RunConfig& config, const NominalFleet& fleet) {
  if (!IsBatchOpen(config)) return BatchShape{config, ""};
  const std::vector<RunConfig> candidates = Candidates(config);
  std::vector<Tried> divided, uneven;
  std::optional<absl::Status> smallest;  // the first candidate takes the least memory
  for (const RunConfig& candidate : candidates) {
    const auto partition = MakePartition(candidate, fleet.gflops, fleet.offers);
    if (!partition.ok()) {
      if (!smallest) smallest = partition.status();
      continue;
    }
    const bool divides =
        candidate.pipeline.microbatches_per_step % partition->stages[0].replicas == 0;
    (divides ? divided : uneven)
        .push_back({candidate, Predict(candidate, fleet, *partition),
                    LargestNeed(candidate, *partition, fleet.offers)});
  }
  const std::vector<Tried>& tried = divided.empty() ? uneven : divided;
  if (tried.empty()) {
    SKERRY_CHECK(smallest.has_value());
    return Annotate(*smallest, absl::StrFormat("of %d shapes of a step none fits, the smallest: "
                                               "%d sequences a microbatch, %d in flight",
                                               candidates.size(),
                                               candidates[0].pipeline.sequences_per_microbatch,
                                               candidates[0].pipeline.in_flight));
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (const Tried& shape : tried) fastest = std::min(fastest, shape.step_s);
  const Tried* best = nullptr;
  for (const Tried& shape : tried) {
    if (shape.step_s > fastest * kAsGood) continue;
    if (best == nullptr || shape.memory_bytes < best->memory_bytes) best = &shape;
  }
  return BatchShape{best->config,
                    Why(config, *best, candidates.size(), divided.size() + uneven.size())};
}

void SettleBatch(const RunConfig& given, const RunConfig& chosen, PlannedSettings* settings) {
  if (given.pipeline.sequences_per_microbatch == 0) {
    settings->sequences_per_microbatch = chosen.pipeline.sequences_per_microbatch;
  }
  if (given.pipeline.in_flight == 0) settings->in_flight = chosen.pipeline.in_flight;
}

int32_t ChooseWindow(const RunConfig& config, const Partition& partition,
                     const PlacementProblem& problem, const Placement& placement,
                     const Contestants& contestants) {
  const std::vector<int32_t> windows =
      Windows(std::min(kWindowMax, config.pipeline.microbatches_per_step));
  std::vector<std::pair<int32_t, double>> fitting;
  for (const int32_t window : windows) {
    RunConfig with = config;
    with.pipeline.in_flight = window;
    PlacementProblem tried = problem;
    tried.workload.in_flight = window;
    tried.fits = FitsOf(with, partition, contestants.offers);
    if (!Fits(tried, placement)) continue;
    PutOff(with, partition, contestants.offers, &tried.fleet);
    Evaluator evaluator(tried.workload, tried.fleet, Lines::kShared);
    fitting.emplace_back(window, evaluator.StepSeconds(placement));
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& [window, step_s] : fitting) fastest = std::min(fastest, step_s);
  for (const auto& [window, step_s] : fitting) {
    if (step_s <= fastest * kAsGood) return window;
  }
  return config.pipeline.in_flight;
}

}  // namespace skerry
