// What a placement costs besides its pipeline: deltas that the replicas of a stage send each other,
// and the rings of cohorts.
//
// Replicas of a stage whose nodes are near are a cohort (docs/decisions/0058-clusters.md): every
// step they sum their gradients over a ring in slot order, and the first of them, its speaker,
// exchanges deltas with the other speakers and passes on to its members what it gets.
//
//   ring of N members   2 (N − 1) / N · bytes of gradients / rate of its slowest link
//                       + 2 (N − 1) · its longest way
//   a step              members wait for each other and for the ring before the next, or with
//                       overlap for those of the step before (StepRings)
//   ... in parts        of a ring of two only for what is not made while the last backward pass
//                       runs (SumPart)
//   a round             until a speaker's delta is at all others, and passed on (round_cost.h)
//
// Where nobody is near anybody each replica speaks. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "routing/evaluator.h"
#include "routing/node_lines.h"

namespace skerry {

struct PlacementProblem;  // placement.h

// One of the sums in which the gradients of a stage leave while the last backward pass of a step
// runs (common/backward_cut.h), in the order in which they do.
struct SumPart {
  double bytes = 1;      // of the stage's gradients
  double pass_left = 0;  // of the pass, when this part's gradients are there
};

// Who may be in one cohort with whom.
struct NearNodes {
  std::vector<uint8_t> pairs;               // [n, n] symmetric; empty: no cohorts
  std::vector<double> gradient_boundaries;  // per stage: bytes of gradients / of a boundary payload
  std::vector<std::vector<SumPart>> parts = {};  // per stage; empty: all sums are made in one go
  bool overlap = false;                          // StepRings::overlap
  bool IsOn() const { return !pairs.empty(); }
  bool Are(const Fleet& fleet, int32_t a, int32_t b) const { return pairs[fleet.Pair(a, b)] != 0; }
};

// From a member of a ring to the next.
struct RingLink {
  double all_s = 0;  // if it carried all that is summed, once
  double way_s = 0;  // of an empty message
};
double RingSeconds(const std::vector<RingLink>& ring);
// From the end of the last backward pass on, which takes `pass_s`, if each part is summed when it
// is there and those before it are.
double SecondsBehindPass(const std::vector<RingLink>& ring, const std::vector<SumPart>& parts,
                         double pass_s);

// Numbers of cohorts, from 0, of the things [0, count) in their order: each is in the first of all
// of whose members it may be with. `may_be_with(a, b)` for b < a.
template <typename MayBeWith>
std::vector<int32_t> CohortNumbers(size_t count, const MayBeWith& may_be_with) {
  std::vector<std::vector<size_t>> cohorts;
  std::vector<int32_t> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    size_t home = 0;
    const auto fits = [&](const std::vector<size_t>& members) {
      for (const size_t member : members) {
        if (!may_be_with(i, member)) return false;
      }
      return true;
    };
    while (home < cohorts.size() && !fits(cohorts[home])) ++home;
    if (home == cohorts.size()) cohorts.emplace_back();
    cohorts[home].push_back(i);
    numbers[i] = static_cast<int32_t>(home);
  }
  return numbers;
}

// [stage] its slots, ascending.
std::vector<std::vector<int32_t>> SlotsByStage(const Workload& workload);

// The cohorts of a stage's slots, speakers first; without cohorts each slot is one.
std::vector<std::vector<int32_t>> CohortsAmong(const PlacementProblem& problem,
                                               const Placement& placement,
                                               const std::vector<int32_t>& slots);

struct StageTraffic {
  double delta_s = 0;   // of a round: until the slowest delta has reached everybody
  double ring_s = 0;    // of a step: for the slowest cohort's ring, from the last pass on
  double distance = 0;  // of its speakers' deltas per step, as Distance (promising_placements.h)
                        // counts those of boundary payloads; 0 without cohorts
  int32_t speakers = 0;
};
// Of a stage with these slots; `lines` of the problem's fleet.
StageTraffic TrafficOf(const PlacementProblem& problem, const NodeLines& lines,
                       const Placement& placement, size_t stage, const std::vector<int32_t>& slots);
StageTraffic TrafficOf(const PlacementProblem& problem, const Placement& placement, size_t stage,
                       const std::vector<int32_t>& slots);

// What the evaluator wants of all stages' cohorts of two and more.
StepRings RingsOf(const PlacementProblem& problem, const Placement& placement);
// Per step, with the rings where there are some; infinite where longer than the limit.
double StepSeconds(Evaluator& evaluator, const PlacementProblem& problem,
                   const Placement& placement,
                   double limit_s = std::numeric_limits<double>::infinity());

// Over all stages: for the slowest ring, as StageTraffic::ring_s; how many speak.
double RingSeconds(const PlacementProblem& problem, const Placement& placement);
int32_t Speakers(const PlacementProblem& problem, const Placement& placement);

}  // namespace skerry
