#include "pipeline/plan/planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "common/rng.h"
#include "common/status.h"
#include "pipeline/plan/batch_shape.h"
#include "pipeline/plan/explain.h"
#include "pipeline/plan/memory_model.h"
#include "pipeline/plan/partition.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/stage_count.h"
#include "pipeline/plan/validate.h"
#include "pipeline/plan/workload.h"
#include "routing/canonical_order.h"
#include "routing/cost_model.h"
#include "routing/lower_bound.h"
#include "routing/placement.h"

namespace skerry {
namespace {

constexpr int32_t kSearchSteps = 4;    // steps of the table that score a placement
constexpr int32_t kPredictSteps = 16;  // and the final one
// Visits simulated by the search: about a second up to 20 nodes, ten at 100.
constexpr double kVisitBudget = 4e6;
constexpr double kVisitBudgetNodes = 20;
constexpr double kVisitBudgetGrowthMax = 4;
constexpr int64_t kEvaluationsMin = 300;
constexpr double kEvaluationsMax = 6000;  // enough: more finds the same up to 20 nodes

absl::Status CheckInput(const PlannerInput& input) {
  const PipelineConfig& pipeline = input.config.pipeline;
  if (input.nodes.empty()) return FailedPrecondition("no nodes to plan for: at least 1 is needed");
  if (!std::is_sorted(input.nodes.begin(), input.nodes.end()) ||
      std::adjacent_find(input.nodes.begin(), input.nodes.end()) != input.nodes.end()) {
    return InvalidArgument("planner: nodes must be ascending without repetition");
  }
  for (const NodeId& node : input.nodes) {
    if (!input.devices.contains(node)) {
      return InvalidArgument("planner: node %s has no device profile", node.Short());
    }
    if (input.nodes.size() > 1 && input.links.IndexOf(node) < 0) {
      return FailedPrecondition("node %s is not in the link matrix: measure its links first",
                                node.Short());
    }
  }
  const bool is_cut = pipeline.sequences_per_microbatch >= 1 || pipeline.sequences_per_step >= 1;
  if (pipeline.microbatches_per_step < 1 || pipeline.in_flight < 0 || pipeline.swaps < 0 ||
      pipeline.sequences_per_microbatch < 0 || !is_cut || pipeline.stages < 0 ||
      !(pipeline.skip_ratio >= 0 && pipeline.skip_ratio <= 0.5)) {
    return InvalidArgument("planner: the [pipeline] settings are out of range");
  }
  if (input.config.model.layers < 1) return InvalidArgument("planner: the model has no layers");
  return absl::OkStatus();
}

uint64_t HashOf(double a, double b) {
  return Mix64(Mix64(std::bit_cast<uint64_t>(a)) ^ std::bit_cast<uint64_t>(b));
}

// The fleet under names that do not matter: index i stands for nodes[i].
struct Contestants {
  std::vector<NodeId> nodes;  // in canonical order
  std::vector<int32_t> link_index;
  std::vector<double> gflops;
  std::vector<int64_t> memory_bytes;
};

Contestants Canonical(const PlannerInput& input) {
  const size_t n = input.nodes.size();
  const std::vector<double> speeds = SpeedsOf(input.nodes, input.devices);
  std::vector<uint64_t> features;
  std::vector<uint64_t> pairs(n * n);
  for (size_t i = 0; i < n; ++i) {
    const auto memory = static_cast<double>(input.devices.at(input.nodes[i]).memory_bytes);
    features.push_back(HashOf(speeds[i], memory));
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const LinkEstimate& link =
          input.links.At(input.links.IndexOf(input.nodes[i]), input.links.IndexOf(input.nodes[j]));
      pairs[i * n + j] = link.usable() ? HashOf(link.rtt_s, link.bytes_per_s) : 0;
    }
  }
  Contestants contestants;
  for (const int32_t index : CanonicalOrder(features, pairs)) {
    const NodeId& node = input.nodes[static_cast<size_t>(index)];
    contestants.nodes.push_back(node);
    contestants.link_index.push_back(input.links.IndexOf(node));
    contestants.gflops.push_back(speeds[static_cast<size_t>(index)]);
    contestants.memory_bytes.push_back(input.devices.at(node).memory_bytes);
  }
  return contestants;
}

Fleet FleetOf(const PlannerInput& input, const Contestants& contestants) {
  const size_t n = contestants.nodes.size();
  const auto payload = static_cast<double>(BoundaryBytes(input.config));
  Fleet fleet;
  fleet.gflops = contestants.gflops;
  fleet.latency_s.resize(n * n);
  fleet.wire_s.resize(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const LinkEstimate& link =
          input.links.At(contestants.link_index[i], contestants.link_index[j]);
      const double never = std::numeric_limits<double>::infinity();
      fleet.latency_s[i * n + j] = link.usable() ? link.rtt_s / 2 : never;
      fleet.wire_s[i * n + j] = link.usable() ? payload / link.bytes_per_s : never;
    }
  }
  return fleet;
}

PlacementProblem ProblemOf(const PlannerInput& input, const Contestants& contestants,
                           const Partition& partition, const std::vector<Path>& paths) {
  const RunConfig& config = input.config;
  PlacementProblem problem;
  problem.workload = WorkloadOf(config, partition, paths, kSearchSteps);
  problem.fleet = FleetOf(input, contestants);
  problem.outer.inner_steps = std::max<int64_t>(1, config.outer.inner_steps);
  problem.outer.overlap_steps = config.outer.overlap_steps;
  problem.node_bytes = contestants.memory_bytes;
  const auto payload = static_cast<double>(BoundaryBytes(config));
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const StageShape& shape = partition.stages[stage];
    const bool ends = stage == 0;
    const auto delta = static_cast<double>(DeltaBytes(config, shape.layers(), ends));
    problem.outer.delta_boundaries.push_back(delta / payload);
    const StageHolds holds = HoldsOf(config, partition.stages[0].replicas, shape.replicas, ends);
    const int64_t needs = MemoryOf(config, shape.layers(), ends, holds).needed();
    problem.slot_bytes.insert(problem.slot_bytes.end(), static_cast<size_t>(shape.replicas), needs);
  }
  return problem;
}

int32_t EvaluationBudget(const Workload& workload) {
  int64_t visits = 0;
  for (const auto& microbatch : workload.microbatches) {
    visits += static_cast<int64_t>(microbatch.slots.size());
  }
  const double growth =
      std::clamp(std::pow(workload.slots() / kVisitBudgetNodes, 1.5), 1.0, kVisitBudgetGrowthMax);
  const auto most = static_cast<int64_t>(kEvaluationsMax * growth);
  const auto evaluations =
      static_cast<int64_t>(kVisitBudget * growth / static_cast<double>(visits));
  return static_cast<int32_t>(std::clamp(evaluations, kEvaluationsMin, most));
}

absl::Status Disconnected(const PlacementProblem& problem, const Contestants& contestants) {
  const int32_t n = problem.fleet.size();
  int32_t unusable = 0;
  std::string first;
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t j = 0; j < n; ++j) {
      if (i == j || std::isfinite(problem.fleet.latency_s[problem.fleet.Pair(i, j)])) continue;
      if (unusable++ > 0) continue;
      first = contestants.nodes[static_cast<size_t>(i)].Short() + " -> " +
              contestants.nodes[static_cast<size_t>(j)].Short();
    }
  }
  return FailedPrecondition(
      "the nodes cannot all reach each other: %d of %d links do not work (first: %s), and no "
      "placement avoids them. Open the nodes' ports, or start without the unreachable ones.",
      unusable, n * (n - 1), first);
}

PipelinePlan Assemble(const PlannerInput& input, const Contestants& contestants,
                      const Partition& partition, std::vector<Path> paths,
                      const Placement& placement) {
  PipelinePlan plan;
  plan.version = input.version;
  plan.microbatches_per_step = input.config.pipeline.microbatches_per_step;
  plan.paths = std::move(paths);
  size_t slot = 0;
  for (const StageShape& shape : partition.stages) {
    StageAssignment assignment{shape.first_layer, shape.last_layer, {}};
    for (int32_t r = 0; r < shape.replicas; ++r) {
      const auto node = static_cast<size_t>(placement[slot++]);
      assignment.replicas.push_back(contestants.nodes[node]);
    }
    plan.stages.push_back(std::move(assignment));
  }
  return plan;
}

// The window follows the links: from a quick placement on, which the search goes on from.
void WidenWindow(const Contestants& contestants, const std::vector<Path>& paths,
                 PlannerInput* asked, Partition* partition) {
  const PlacementProblem problem = ProblemOf(*asked, contestants, *partition, paths);
  const PlacementResult quick =
      Place(problem, partition->nodes, {asked->config.seed, kEvaluationsMin});
  if (!std::isfinite(quick.total_s())) return;
  partition->nodes = quick.placement;
  asked->config.pipeline.in_flight =
      ChooseWindow(asked->config, *partition, problem, quick.placement);
}

}  // namespace

absl::StatusOr<PlannedRun> MakePlan(const PlannerInput& input) {
  SKERRY_RETURN_IF_ERROR(CheckInput(input));
  PlannerInput asked = input;  // with what is chosen, once it is
  RunConfig& config = asked.config;
  const Contestants contestants = Canonical(input);
  SKERRY_ASSIGN_OR_RETURN(
      const BatchShape batch,
      ChooseShape(config, NominalOf(contestants.gflops, contestants.memory_bytes, input.links)));
  config = batch.config;
  SKERRY_ASSIGN_OR_RETURN(Partition partition,
                          MakePartition(config, contestants.gflops, contestants.memory_bytes));
  std::vector<Path> paths = PathsOf(config, partition);

  if (input.config.pipeline.in_flight == 0) WidenWindow(contestants, paths, &asked, &partition);

  PlacementProblem problem = ProblemOf(asked, contestants, partition, paths);
  const PlacementOptions options{config.seed, EvaluationBudget(problem.workload)};
  const PlacementResult found = Place(problem, partition.nodes, options);
  if (!std::isfinite(found.total_s())) return Disconnected(problem, contestants);

  problem.workload = WorkloadOf(config, partition, paths, kPredictSteps);
  Evaluator evaluator(problem.workload, problem.fleet);
  const auto total = [&](const Placement& placement) {
    const double step_s = evaluator.StepSeconds(placement);
    return step_s + ExposedSeconds(problem, placement, step_s);
  };
  PlanFigures figures;
  figures.batch = batch.why;
  if (input.config.pipeline.in_flight == 0) {
    figures.batch +=
        absl::StrFormat("on the measured links a window of %d\n", config.pipeline.in_flight);
  }
  figures.first_s = total(partition.nodes);
  // The search looks at fewer steps than the prediction: what it found may be no better here.
  const Placement& chosen =
      total(found.placement) <= figures.first_s ? found.placement : partition.nodes;
  figures.evaluation = evaluator.Evaluate(chosen);
  if (!std::isfinite(figures.evaluation.step_s)) return Disconnected(problem, contestants);
  figures.exposed_s = ExposedSeconds(problem, chosen, figures.evaluation.step_s);
  figures.placement_bound_s = PlacementBound(problem.workload, problem.fleet, chosen);
  figures.any_bound_s = AnyPlacementBound(problem.workload, problem.fleet);
  figures.evaluations = found.evaluations;

  PlannedRun run;
  run.plan = Assemble(asked, contestants, partition, std::move(paths), chosen);
  SettleBatch(input.config, config, &run.plan.settings);
  run.predicted_step_s = figures.evaluation.step_s + figures.exposed_s;
  run.lower_bound_s = figures.any_bound_s;
  run.explanation = ExplainPlan(run.plan, config, input.links, figures);
  const RunConfig settled = Settled(config, run.plan);
  SKERRY_RETURN_IF_ERROR(ValidatePlan(run.plan, settled));
  SKERRY_RETURN_IF_ERROR(ValidateMemory(run.plan, settled, input.devices));
  return run;
}

absl::StatusOr<PipelinePlan> RepairPlan(const PipelinePlan& plan, const std::set<NodeId>& dead,
                                        int64_t version) {
  if (version <= plan.version) {
    return InvalidArgument("a repaired plan needs a version above %d, got %d", plan.version,
                           version);
  }
  for (const NodeId& node : dead) {
    if (!SlotOf(plan, node)) {
      return InvalidArgument("dead node %s is not of plan %d", node.Short(), plan.version);
    }
  }
  PipelinePlan repaired = plan;
  repaired.version = version;
  repaired.dead.assign(dead.begin(), dead.end());
  std::erase_if(repaired.joining, [&](const Joiner& joiner) { return dead.contains(joiner.node); });
  if (plan.stages.empty() || LiveReplicas(repaired, 0).empty()) {
    return FailedPrecondition(
        "no replica of stage 0 is left (%d dead): it holds embedding and head, the run waits until "
        "one comes back",
        dead.size());
  }
  return repaired;
}

}  // namespace skerry
