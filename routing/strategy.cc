#include "routing/strategy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/rng.h"
#include "common/status.h"
#include "routing/cost_model.h"
#include "routing/dtfm.h"
#include "routing/skippipe_search.h"

namespace skerry {
namespace {

constexpr int64_t kPlacementEvaluations = 8000;

std::vector<int32_t> Replicas(const Workload& shape) {
  std::vector<int32_t> replicas(shape.forward_flops.size());
  for (const int32_t stage : shape.stage_of_slot) ++replicas[static_cast<size_t>(stage)];
  return replicas;
}

std::vector<int32_t> FirstSlots(const std::vector<int32_t>& replicas) {
  std::vector<int32_t> first(replicas.size());
  for (size_t s = 1; s < replicas.size(); ++s) first[s] = first[s - 1] + replicas[s - 1];
  return first;
}

Placement InOrder(const Workload& shape) {
  Placement placement(static_cast<size_t>(shape.slots()));
  std::iota(placement.begin(), placement.end(), 0);
  return placement;
}

// Pipelines r, r + 1, … through replica r mod n of each stage.
Workload Straight(const StrategyInput& input) {
  Workload workload = input.shape;
  const std::vector<int32_t> replicas = Replicas(workload);
  const std::vector<int32_t> first = FirstSlots(replicas);
  workload.microbatches.clear();
  for (int32_t i = 0; i < workload.steps * input.microbatches_per_step; ++i) {
    Workload::Microbatch microbatch{i / input.microbatches_per_step, {}};
    for (size_t s = 0; s < replicas.size(); ++s) {
      const int32_t pipeline = i % input.microbatches_per_step % replicas[0];
      microbatch.slots.push_back(first[s] + pipeline % replicas[s]);
    }
    workload.microbatches.push_back(std::move(microbatch));
  }
  return workload;
}

double Seconds(const Fleet& fleet, size_t pair) {
  return fleet.latency_s[pair] + fleet.wire_s[pair];
}

absl::StatusOr<StrategyPlan> LikeDtfm(const StrategyInput& input) {
  const auto n = static_cast<size_t>(input.fleet.size());
  const std::vector<int32_t> replicas = Replicas(input.shape);
  const double delta =
      *std::max_element(input.delta_boundaries.begin(), input.delta_boundaries.end());
  DtfmProblem problem;
  problem.group_sizes = replicas;
  problem.exchange_s.resize(n * n);
  problem.activation_s.resize(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double there = Seconds(input.fleet, i * n + j);
      const double back = Seconds(input.fleet, j * n + i);
      const double wire = (input.fleet.wire_s[i * n + j] + input.fleet.wire_s[j * n + i]) / 2;
      const double shard = delta / std::max(1, replicas[0]);
      problem.activation_s[i * n + j] = (there + back) / 2;
      problem.exchange_s[i * n + j] =
          input.fleet.latency_s[i * n + j] + input.fleet.latency_s[j * n + i] + 2 * shard * wire;
    }
  }
  DtfmOptions options;
  options.seed = input.seed;
  options.evaluations = kPlacementEvaluations;
  options.should_stop = input.should_stop;
  SKERRY_ASSIGN_OR_RETURN(const DtfmPlan plan, SearchDtfm(problem, options));
  // Its tour orders groups of equal size; stages keep theirs.
  std::vector<std::vector<int32_t>> groups = plan.groups;
  StrategyPlan result;
  for (size_t s = 0; s < replicas.size(); ++s) {
    const auto fits = std::find_if(
        groups.begin() + static_cast<std::ptrdiff_t>(s), groups.end(),
        [&](const auto& group) { return static_cast<int32_t>(group.size()) == replicas[s]; });
    std::swap(groups[s], *fits);
    result.placement.insert(result.placement.end(), groups[s].begin(), groups[s].end());
  }
  result.workload = Straight(input);
  result.note = absl::StrFormat("its cost: %.2f s, of which %.2f s between replicas", plan.cost_s(),
                                plan.data_parallel_s);
  return result;
}

// The replica whose turn it is: least virtual run time, then charged for the work.
int32_t NextReplica(std::vector<double>& run_times, int32_t first, const StrategyInput& input,
                    Rng& rng) {
  size_t best = rng.Below(run_times.size());
  for (size_t r = 0; r < run_times.size(); ++r) {
    if (run_times[r] < run_times[best]) best = r;
  }
  run_times[best] += 1 / input.fleet.gflops[static_cast<size_t>(first) + best];
  return first + static_cast<int32_t>(best);
}

StrategyPlan LikeSwarm(const StrategyInput& input) {
  StrategyPlan result;
  result.placement = InOrder(input.shape);
  result.workload = input.shape;
  result.workload.microbatches.clear();
  const std::vector<int32_t> replicas = Replicas(input.shape);
  const std::vector<int32_t> first = FirstSlots(replicas);
  // SWARM has a balancer per trainer: a stage-0 node here.
  std::vector<std::vector<std::vector<double>>> run_times(static_cast<size_t>(replicas[0]));
  Rng rng(input.seed, "swarm");
  for (auto& of_origin : run_times) {
    for (const int32_t count : replicas) {
      of_origin.emplace_back(static_cast<size_t>(count));
      for (double& time : of_origin.back()) time = 1e-6 * rng.Uniform();
    }
  }
  for (int32_t i = 0; i < result.workload.steps * input.microbatches_per_step; ++i) {
    const int32_t origin = i % input.microbatches_per_step % replicas[0];
    Workload::Microbatch microbatch{i / input.microbatches_per_step, {origin}};
    for (size_t s = 1; s < replicas.size(); ++s) {
      auto& balancer = run_times[static_cast<size_t>(origin)][s];
      microbatch.slots.push_back(NextReplica(balancer, first[s], input, rng));
    }
    result.workload.microbatches.push_back(std::move(microbatch));
  }
  result.note = "replicas by virtual run time, weighted by speed";
  return result;
}

SkipPipeProblem ProblemOf(const StrategyInput& input) {
  const auto n = static_cast<size_t>(input.fleet.size());
  const Workload& shape = input.shape;
  SkipPipeProblem problem;
  problem.stage_sizes = Replicas(shape);
  const auto later = static_cast<double>(problem.stages() - 1);
  problem.path_length =
      1 + std::max(1, static_cast<int32_t>(std::lround(later * (1 - input.skip_ratio))));
  problem.in_flight = shape.in_flight;
  const int32_t slots = problem.stage_sizes.front() * shape.in_flight;
  problem.waves = std::max(1, (input.microbatches_per_step + slots - 1) / slots);
  // SkipPipe knows one computing time per node: that of an average stage.
  const double flops =
      std::accumulate(shape.forward_flops.begin(), shape.forward_flops.end(), 0.0) /
      static_cast<double>(shape.stages());
  for (size_t i = 0; i < n; ++i) {
    problem.forward_s.push_back(ComputeSeconds(flops, input.fleet.gflops[i]));
    for (size_t j = 0; j < n; ++j) {
      problem.transfer_s.push_back(i == j ? 0 : Seconds(input.fleet, i * n + j));
    }
  }
  problem.backward_factor = kBackwardPerForward;
  problem.loss_factor = flops > 0 ? shape.loss_flops / flops : 0;
  problem.task_gap_s = 0;
  problem.start_gap_s = 0;
  return problem;
}

// What a run could not train with: stages of unequal participation, nodes without work.
std::string Unevenness(const Workload& workload) {
  std::vector<int32_t> of_slot(static_cast<size_t>(workload.slots()));
  std::vector<int32_t> of_stage(workload.forward_flops.size());
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    for (const int32_t slot : microbatch.slots) {
      ++of_slot[static_cast<size_t>(slot)];
      ++of_stage[static_cast<size_t>(workload.stage_of_slot[static_cast<size_t>(slot)])];
    }
  }
  if (of_stage.size() < 2) return "";
  const auto idle = std::count(of_slot.begin(), of_slot.end(), 0);
  const auto [least, most] = std::minmax_element(of_stage.begin() + 1, of_stage.end());
  const double total = static_cast<double>(workload.microbatches.size());
  return absl::StrFormat(", which take part in %.0f to %.0f %% of microbatches; %d nodes idle",
                         100 * *least / total, 100 * *most / total, idle);
}

absl::StatusOr<StrategyPlan> LikeSkipPipe(const StrategyInput& input, bool equal_shares) {
  const SkipPipeProblem problem = ProblemOf(input);
  SkipPipeSearchOptions options;
  options.seed = input.seed;
  options.should_stop = input.should_stop;
  options.equal_shares = equal_shares;
  SKERRY_ASSIGN_OR_RETURN(const auto partitions, PlaceLikeSkipPipe(problem, options));
  SKERRY_ASSIGN_OR_RETURN(const SkipPipeSchedule schedule,
                          RouteLikeSkipPipe(problem, partitions, options));
  StrategyPlan result;
  std::vector<int32_t> slot_of(static_cast<size_t>(input.fleet.size()));
  for (const auto& stage : schedule.partitions) {
    for (const int32_t node : stage) {
      slot_of[static_cast<size_t>(node)] = static_cast<int32_t>(result.placement.size());
      result.placement.push_back(node);
    }
  }
  result.workload = input.shape;
  result.workload.microbatches.clear();
  // Its paths are fixed for the whole run; a step takes as many of them as it has microbatches, in
  // turn from all stage-0 nodes.
  std::vector<SkipPipeMicrobatch> turns = schedule.microbatches;
  const int32_t slots = problem.in_flight;
  std::stable_sort(turns.begin(), turns.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.wave, a.lane % slots) < std::pair(b.wave, b.lane % slots);
  });
  for (int32_t i = 0; i < result.workload.steps * input.microbatches_per_step; ++i) {
    const auto turn = static_cast<size_t>(i) % turns.size();
    Workload::Microbatch microbatch{i / input.microbatches_per_step, {}};
    for (const int32_t node : turns[turn].path) {
      microbatch.slots.push_back(slot_of[static_cast<size_t>(node)]);
    }
    result.workload.microbatches.push_back(std::move(microbatch));
  }
  result.note = absl::StrFormat("paths of %d of %d stages%s", problem.path_length, problem.stages(),
                                Unevenness(result.workload));
  return result;
}

}  // namespace

absl::StatusOr<StrategyPlan> RunStrategy(Strategy strategy, const StrategyInput& input) {
  if (input.shape.slots() != input.fleet.size() || input.shape.slots() == 0) {
    return InvalidArgument("%d slots for %d nodes", input.shape.slots(), input.fleet.size());
  }
  if (input.microbatches_per_step < 1 || input.shape.steps < 1) {
    return InvalidArgument("no microbatches to plan for");
  }
  switch (strategy) {
    case Strategy::kInOrder:
      return StrategyPlan{Straight(input), InOrder(input.shape), "nodes and pipelines in order"};
    case Strategy::kDtfm:
      return LikeDtfm(input);
    case Strategy::kSwarm:
      return LikeSwarm(input);
    case Strategy::kSkipPipe:
      return LikeSkipPipe(input, false);
    case Strategy::kSkipPipeEven:
      return LikeSkipPipe(input, true);
  }
  return InvalidArgument("no such strategy");
}

}  // namespace skerry
