#include "routing/stage_traffic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "routing/cost_model.h"
#include "routing/placement.h"

namespace skerry {
namespace {

int32_t NodeAt(const Placement& placement, int32_t slot) {
  return placement[static_cast<size_t>(slot)];
}

// As the evaluator has it.
double BackwardSeconds(const PlacementProblem& problem, size_t stage, int32_t node) {
  const double forward_s = ComputeSeconds(problem.workload.forward_flops[stage],
                                          problem.fleet.gflops[static_cast<size_t>(node)]);
  const double repeats = problem.fleet.RepeatsOf(static_cast<int32_t>(stage), node);
  return (kBackwardPerForward + repeats) * forward_s;
}

// What is not hidden of it, from the last member's last pass on. Of unequal members nobody knows
// here who ends first, so the shorter pass counts: with equal ones, as most cohorts have, and with
// any lag between them that is exact.
double RingOf(const PlacementProblem& problem, const Placement& placement, size_t stage,
              const std::vector<int32_t>& cohort) {
  if (cohort.size() < 2) return 0;
  const Fleet& fleet = problem.fleet;
  const NearNodes& near = problem.near;
  std::vector<RingLink> ring;
  double pass_s = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < cohort.size(); ++i) {
    const int32_t node = NodeAt(placement, cohort[i]);
    const int32_t next = NodeAt(placement, cohort[(i + 1) % cohort.size()]);
    const size_t pair = fleet.Pair(node, next);
    ring.push_back({near.gradient_boundaries[stage] * fleet.wire_s[pair], fleet.latency_s[pair]});
    pass_s = std::min(pass_s, BackwardSeconds(problem, stage, node));
  }
  // As Cohort::SumsInParts, but that nobody tells the planner of lanes.
  const bool in_parts = cohort.size() == 2 && !near.overlap && !near.parts.empty();
  return in_parts ? SecondsBehindPass(ring, near.parts[stage], pass_s) : RingSeconds(ring);
}

}  // namespace

double RingSeconds(const std::vector<RingLink>& ring) {
  return SecondsBehindPass(ring, {SumPart()}, 0);
}

double SecondsBehindPass(const std::vector<RingLink>& ring, const std::vector<SumPart>& parts,
                         double pass_s) {
  if (ring.size() < 2) return 0;
  double slowest = 0, longest = 0;
  for (const RingLink& link : ring) {
    slowest = std::max(slowest, link.all_s);
    longest = std::max(longest, link.way_s);
  }
  const auto members = static_cast<double>(ring.size());
  double end_s = -pass_s;
  for (const SumPart& part : parts) {
    end_s = std::max(end_s, -part.pass_left * pass_s);
    end_s += 2 * (members - 1) * (part.bytes * slowest / members + longest);
  }
  return end_s;
}

std::vector<std::vector<int32_t>> SlotsByStage(const Workload& workload) {
  std::vector<std::vector<int32_t>> slots_of;
  for (int32_t slot = 0; slot < workload.slots(); ++slot) {
    const auto stage = static_cast<size_t>(workload.stage_of_slot[static_cast<size_t>(slot)]);
    if (stage >= slots_of.size()) slots_of.resize(stage + 1);
    slots_of[stage].push_back(slot);
  }
  return slots_of;
}

std::vector<std::vector<int32_t>> CohortsAmong(const PlacementProblem& problem,
                                               const Placement& placement,
                                               const std::vector<int32_t>& slots) {
  std::vector<std::vector<int32_t>> cohorts;
  if (!problem.near.IsOn()) {
    for (const int32_t slot : slots) cohorts.push_back({slot});
    return cohorts;
  }
  const std::vector<int32_t> numbers = CohortNumbers(slots.size(), [&](size_t a, size_t b) {
    return problem.near.Are(problem.fleet, NodeAt(placement, slots[a]),
                            NodeAt(placement, slots[b]));
  });
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto number = static_cast<size_t>(numbers[i]);
    if (number == cohorts.size()) cohorts.emplace_back();
    cohorts[number].push_back(slots[i]);
  }
  return cohorts;
}

StageTraffic TrafficOf(const PlacementProblem& problem, const NodeLines& lines,
                       const Placement& placement, size_t stage,
                       const std::vector<int32_t>& slots) {
  const std::vector<std::vector<int32_t>> cohorts = CohortsAmong(problem, placement, slots);
  const RoundAmounts amounts = problem.outer.ToEach(stage, cohorts.size());
  StageTraffic traffic;
  traffic.speakers = static_cast<int32_t>(cohorts.size());
  for (const SpeakerCost& cost : SpeakerCosts(problem, lines, placement, cohorts)) {
    const RoundTime time = TimeOfRound(cost, amounts, cohorts.size(), problem.fleet.handling_s);
    traffic.delta_s = std::max(traffic.delta_s, time.seconds());
  }
  for (size_t speaker = 0; problem.near.IsOn() && speaker < cohorts.size(); ++speaker) {
    traffic.ring_s = std::max(traffic.ring_s, RingOf(problem, placement, stage, cohorts[speaker]));
    const int32_t from = NodeAt(placement, cohorts[speaker].front());
    for (size_t other = 0; other < cohorts.size(); ++other) {
      if (other == speaker) continue;
      const int32_t to = NodeAt(placement, cohorts[other].front());
      traffic.distance += std::sqrt(problem.fleet.latency_s[problem.fleet.Pair(from, to)]);
    }
  }
  traffic.distance *= amounts.all() / static_cast<double>(problem.outer.inner_steps);
  return traffic;
}

StageTraffic TrafficOf(const PlacementProblem& problem, const Placement& placement, size_t stage,
                       const std::vector<int32_t>& slots) {
  return TrafficOf(problem, *LinesOfProblem(problem), placement, stage, slots);
}

StepRings RingsOf(const PlacementProblem& problem, const Placement& placement) {
  StepRings rings;
  rings.ring_of_slot.assign(placement.size(), -1);
  rings.overlap = problem.near.overlap;
  const std::vector<std::vector<int32_t>> slots_of = SlotsByStage(problem.workload);
  for (size_t stage = 0; stage < slots_of.size(); ++stage) {
    for (const auto& cohort : CohortsAmong(problem, placement, slots_of[stage])) {
      if (cohort.size() < 2) continue;
      for (const int32_t slot : cohort)
        rings.ring_of_slot[static_cast<size_t>(slot)] = static_cast<int32_t>(rings.seconds.size());
      rings.seconds.push_back(RingOf(problem, placement, stage, cohort));
    }
  }
  return rings;
}

double StepSeconds(Evaluator& evaluator, const PlacementProblem& problem,
                   const Placement& placement, double limit_s) {
  if (!problem.near.IsOn()) return evaluator.StepSeconds(placement, nullptr, limit_s);
  const StepRings rings = RingsOf(problem, placement);
  return evaluator.StepSeconds(placement, &rings, limit_s);
}

double RingSeconds(const PlacementProblem& problem, const Placement& placement) {
  double slowest = 0;
  for (const double seconds : RingsOf(problem, placement).seconds)
    slowest = std::max(slowest, seconds);
  return slowest;
}

int32_t Speakers(const PlacementProblem& problem, const Placement& placement) {
  size_t speakers = 0;
  for (const std::vector<int32_t>& slots : SlotsByStage(problem.workload))
    speakers += CohortsAmong(problem, placement, slots).size();
  return static_cast<int32_t>(speakers);
}

}  // namespace skerry
