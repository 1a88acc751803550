#include "pipeline/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "pipeline/plan/batch_shape.h"
#include "pipeline/plan/check_input.h"
#include "pipeline/plan/contestants.h"
#include "pipeline/plan/explain.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/outer_choice.h"
#include "pipeline/plan/partition.h"
#include "pipeline/plan/reducer_shares.h"
#include "pipeline/plan/route.h"
#include "pipeline/plan/slow_links.h"
#include "pipeline/plan/stage_count.h"
#include "pipeline/plan/take_part.h"
#include "pipeline/plan/validate.h"
#include "pipeline/plan/workload.h"
#include "routing/held_up.h"
#include "routing/lower_bound.h"
#include "routing/placement.h"

namespace skerry {
namespace {

constexpr int32_t kSearchSteps = 4;    // steps of the table that score a placement
constexpr int32_t kPredictSteps = 16;  // and the final one
// Visits simulated by the search: about a second up to 20 nodes, ten at 100.
constexpr double kVisitBudget = 2.5e6;
constexpr double kVisitBudgetNodes = 20;
constexpr double kVisitBudgetGrowthMax = 4;
constexpr int64_t kEvaluationsMin = 300;
constexpr double kEvaluationsMax = 12000;  // enough: more finds the same up to 20 nodes
// A placement depends on outer traffic that is not hidden, the choice of δ on the placement.
constexpr int kPlacedAgainMax = 2;

// Where shapes are compared, all of them together may take some times as long as the plan itself.
constexpr int64_t kQuickShare = 80;
constexpr int64_t kQuickEvaluationsMin = 40;
constexpr int64_t kQuickEvaluationsMax = 400;
// Quick plans see rounded figures; so the best few are planned in earnest, as time allows, and one
// that is faster by so much on the measured ones replaces one that comes before it.
constexpr size_t kInEarnestMax = 6;
constexpr size_t kInEarnestNodes = 36;  // all of them together
constexpr double kWorthAnotherChoice = 1.005;

int32_t EvaluationBudget(const Workload& workload, PlacementEffort effort) {
  int64_t visits = 0;
  for (const auto& microbatch : workload.microbatches) {
    visits += static_cast<int64_t>(microbatch.slots.size());
  }
  const double growth =
      std::clamp(std::pow(workload.slots() / kVisitBudgetNodes, 1.5), 1.0, kVisitBudgetGrowthMax);
  const auto most = static_cast<int64_t>(kEvaluationsMax * growth);
  const auto evaluations =
      static_cast<int64_t>(kVisitBudget * growth / static_cast<double>(visits));
  if (effort == PlacementEffort::kQuick) {
    const int64_t share = evaluations / kQuickShare;
    return static_cast<int32_t>(std::clamp(share, kQuickEvaluationsMin, kQuickEvaluationsMax));
  }
  return static_cast<int32_t>(std::clamp(evaluations, kEvaluationsMin, most));
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

// The best placement for some outer settings, and what it costs.
struct Placed {
  PlacementProblem problem;  // of kPredictSteps; its fleet with slow links
  Placement placement;
  std::vector<SlotLink> slow_links;
  PlanFigures figures;
};

absl::StatusOr<Placed> PlaceFor(const PlannerInput& input, const Contestants& contestants,
                                const Partition& partition, const std::vector<Path>& paths,
                                PlacementEffort effort) {
  const RunConfig& config = input.config;
  Placed placed;
  PlacementProblem& problem = placed.problem;
  problem = ProblemOf(input, contestants, partition, paths, kSearchSteps);
  const PlacementOptions options{config.seed, EvaluationBudget(problem.workload, effort), effort};
  const PlacementResult found = Place(problem, partition.nodes, options);
  if (!std::isfinite(found.total_s())) return Disconnected(problem, contestants);

  problem.workload = WorkloadOf(config, partition, paths, kPredictSteps);
  PlanFigures& figures = placed.figures;
  // Quick plans are many, and their placements differ by more than the two ways to share a line.
  const Lines lines = effort == PlacementEffort::kQuick ? Lines::kInTurn : Lines::kShared;
  {
    Evaluator evaluator(problem.workload, problem.fleet, lines);
    const auto total = [&](const Placement& placement) {
      const double step_s = StepSeconds(evaluator, problem, placement);
      return step_s + ExposedSeconds(problem, placement, step_s);
    };
    figures.first_s = total(partition.nodes);
    // The search looks at fewer steps than the prediction: what it found may be no better here.
    placed.placement =
        total(found.placement) <= figures.first_s ? found.placement : partition.nodes;
    figures.plain_step_s = StepSeconds(evaluator, problem, placed.placement);
  }
  if (!std::isfinite(figures.plain_step_s)) return Disconnected(problem, contestants);

  const double share = SlowLinkShare(config);
  placed.slow_links =
      ChooseSlowLinks(problem.workload, problem.fleet, placed.placement, share, lines);
  // No placement is faster than one with every link shrunk.
  Fleet shrunk = problem.fleet;
  for (double& wire_s : shrunk.wire_s) wire_s *= share;
  shrunk.handling_s *= share;
  figures.any_bound_s = AnyPlacementBound(problem.workload, shrunk);
  problem.fleet = WithSlowLinks(problem.fleet, placed.placement, placed.slow_links, share);
  Evaluator evaluator(problem.workload, problem.fleet, lines);
  const StepRings rings = RingsOf(problem, placed.placement);
  figures.evaluation = evaluator.Evaluate(placed.placement, &rings);
  figures.ring_s = RingSeconds(problem, placed.placement);
  figures.speakers = Speakers(problem, placed.placement);
  figures.exposed_s = ExposedSeconds(problem, placed.placement, figures.evaluation.step_s);
  figures.placement_bound_s = PlacementBound(problem.workload, problem.fleet, placed.placement);
  figures.evaluations = found.evaluations;
  return placed;
}

std::vector<SlowLink> NodeLinks(const Placed& placed, const Contestants& contestants) {
  const auto node = [&](int32_t slot) {
    return contestants.nodes[static_cast<size_t>(placed.placement[static_cast<size_t>(slot)])];
  };
  std::vector<SlowLink> links;
  for (const SlotLink& link : placed.slow_links) links.push_back({node(link.from), node(link.to)});
  std::sort(links.begin(), links.end());
  return links;
}

// The longer δ, the more messages replicas hold. Stages were cut for FirstOuter's, which fits.
void ChooseOuterThatFits(const OuterConfig& given, PlannerInput* input,
                         const Contestants& contestants, const Partition& partition,
                         const std::vector<Path>& paths, Placed* placed) {
  RunConfig& config = input->config;
  RunConfig asked = config;
  asked.outer = given;
  const DeltaCodec encoded_as = config.outer.codec;
  placed->figures.outer_was_open = IsOuterOpen(given);
  for (int64_t part = 1; part <= kWantedPart; part *= 2) {
    placed->figures.outer = ChooseOuter(asked, placed->problem, placed->placement,
                                        placed->figures.evaluation.step_s, encoded_as, part);
    config.outer = Chosen(given, placed->figures.outer);
    if (given.overlap_steps >= 0 ||
        kWantedPart * config.outer.overlap_steps <= config.outer.inner_steps) {
      return;
    }
    const PlacementProblem problem = ProblemOf(*input, contestants, partition, paths, kSearchSteps);
    if (Fits(problem, partition.nodes) && Fits(problem, placed->placement)) return;
  }
}

// Places, chooses what is open of the outer rounds, and places again if that makes a difference.
// `input->config` is settled afterwards, `given` is what the operator wrote.
absl::StatusOr<Placed> PlaceAndChoose(const OuterConfig& given, PlannerInput* input,
                                      const Contestants& contestants, const Partition& partition,
                                      const std::vector<Path>& paths, PlacementEffort effort) {
  RunConfig& config = input->config;
  for (int again = 0;; ++again) {
    SKERRY_ASSIGN_OR_RETURN(Placed placed, PlaceFor(*input, contestants, partition, paths, effort));
    const OuterConfig before = config.outer;
    ChooseOuterThatFits(given, input, contestants, partition, paths, &placed);
    if (config.outer == before) return placed;
    const double exposed_before = placed.figures.exposed_s;
    Charge(config, partition, &placed.problem);
    placed.figures.exposed_s =
        ExposedSeconds(placed.problem, placed.placement, placed.figures.evaluation.step_s);
    // Where nothing is exposed, the search looked for the same.
    if (exposed_before == placed.figures.exposed_s || again == kPlacedAgainMax) return placed;
  }
}

template <typename Int>
Int WholeSeconds(double seconds) {
  return static_cast<Int>(std::min(std::ceil(seconds), double{std::numeric_limits<Int>::max()}));
}

// The window follows the links: from a quick placement on, which the search goes on from.
void WidenWindow(const Contestants& contestants, const std::vector<Path>& paths,
                 PlannerInput* asked, Partition* partition) {
  const PlacementProblem problem = ProblemOf(*asked, contestants, *partition, paths, kSearchSteps);
  const PlacementResult quick =
      Place(problem, partition->nodes, {asked->config.seed, kEvaluationsMin});
  if (!std::isfinite(quick.total_s())) return;
  partition->nodes = quick.placement;
  asked->config.pipeline.in_flight =
      ChooseWindow(asked->config, *partition, problem, quick.placement, contestants);
}

// What takes part is settled.
absl::StatusOr<PlannedRun> PlanFor(const PlannerInput& given, PlacementEffort effort) {
  const bool spreads = std::all_of(given.nodes.begin(), given.nodes.end(), [&](const NodeId& node) {
    return given.devices.at(node).spreads;
  });
  PlannerInput input = given;
  input.config.outer.reduce = ReduceOf(given.config, spreads);
  PlannerInput asked = input;  // with what is chosen, once it is
  RunConfig& config = asked.config;
  config.outer = FirstOuter(input.config);
  const Contestants contestants = Canonical(input);
  const NominalFleet nominal =
      NominalOf(contestants.gflops, contestants.offers, input.links, input.message_s);
  SKERRY_ASSIGN_OR_RETURN(const BatchShape batch, ChooseShape(config, nominal));
  config = batch.config;
  SKERRY_ASSIGN_OR_RETURN(Partition partition,
                          MakePartition(config, contestants.gflops, contestants.offers));
  std::vector<Path> paths = PathsOf(config, partition);
  const bool window_is_open = input.config.pipeline.in_flight == 0;
  if (window_is_open) WidenWindow(contestants, paths, &asked, &partition);

  SKERRY_ASSIGN_OR_RETURN(Placed placed, PlaceAndChoose(input.config.outer, &asked, contestants,
                                                        partition, paths, effort));
  PlanFigures& figures = placed.figures;
  figures.batch = batch.why;
  if (window_is_open) {
    figures.batch +=
        absl::StrFormat("on the measured links a window of %d\n", config.pipeline.in_flight);
  }

  PlannedRun run;
  run.plan = Assemble(asked, contestants, partition, std::move(paths), placed.placement);
  Settle(input.config.outer, figures.outer, &run.plan.settings);
  SettleBatch(input.config, config, &run.plan.settings);
  run.plan.settings.spreads = spreads;
  run.plan.slow_links = NodeLinks(placed, contestants);
  SetCohorts(input.near, input.links, &run.plan);
  if (effort == PlacementEffort::kFull) {
    figures.held_up_s = HeldUpSeconds(placed.problem, placed.placement, figures.evaluation.step_s);
  }
  run.predicted_step_s = figures.evaluation.step_s + figures.outer_s();
  run.plan.settings.round_s = WholeSeconds<int32_t>(figures.outer.transfer_s);
  run.plan.settings.step_s = WholeSeconds<uint16_t>(run.predicted_step_s);
  run.ring_s = figures.ring_s;
  run.speakers = figures.speakers;
  run.lower_bound_s = figures.any_bound_s;
  run.outer = figures.outer;
  run.plain_step_s = figures.plain_step_s;
  const RunConfig settled = Settled(config, run.plan);
  for (size_t stage = 0; stage < run.plan.stages.size(); ++stage) {
    for (const NodeId& node : run.plan.stages[stage].replicas) {
      const MemoryOffer offer = OfferOf(input.devices.at(node));
      figures.holds.push_back(HoldsOf(settled, run.plan, static_cast<int32_t>(stage), offer));
    }
  }
  run.explanation = ExplainPlan(run.plan, config, input.links, figures);
  SKERRY_RETURN_IF_ERROR(ValidatePlan(run.plan, settled));
  SKERRY_RETURN_IF_ERROR(ValidateMemory(run.plan, settled, input.devices));
  return run;
}

bool IsWorthTaking(const absl::StatusOr<PlannedRun>& run, const absl::StatusOr<PlannedRun>& best) {
  if (!run.ok()) return false;
  return !best.ok() || run->predicted_step_s * kWorthAnotherChoice < best->predicted_step_s;
}

size_t PlannedInEarnest(size_t nodes) {
  return std::clamp<size_t>(kInEarnestNodes / nodes, 1, kInEarnestMax);
}

std::string LeftOut(const std::vector<NodeId>& all, const std::vector<NodeId>& taking_part) {
  if (all.size() == taking_part.size()) return "";
  std::string text = "a step is shorter without, so these stand by:";
  for (const NodeId& node : all) {
    if (!std::binary_search(taking_part.begin(), taking_part.end(), node)) {
      text += " " + node.Short();
    }
  }
  return text + "\n";
}

}  // namespace

absl::StatusOr<PlannedRun> MakePlan(const PlannerInput& given) {
  SKERRY_RETURN_IF_ERROR(CheckInput(given));
  PlannerInput input = given;
  input.near = NearPairsOf({input.config.cluster, input.devices, input.regions, input.links});
  if (input.is_quick && input.config.pipeline.stages > 0) {
    return PlanFor(input, PlacementEffort::kQuick);
  }
  const auto quick_plan = [](const PlannerInput& candidate) {
    const auto quick = PlanFor(candidate, PlacementEffort::kQuick);
    return quick.ok() ? quick->predicted_step_s : std::numeric_limits<double>::infinity();
  };
  std::optional<absl::StatusOr<PlannedRun>> best;
  for (const TakingPart& candidate :
       ChooseTakingPart(input, quick_plan, PlannedInEarnest(input.nodes.size()))) {
    PlannerInput settled = input;
    settled.nodes = candidate.nodes;
    settled.config.pipeline.stages = candidate.stages;
    auto run = PlanFor(settled, PlacementEffort::kFull);
    if (run.ok()) run->explanation += LeftOut(input.nodes, candidate.nodes);
    if (!best || IsWorthTaking(run, *best)) best = std::move(run);
  }
  return *std::move(best);
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
