#include "routing/held_up.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "routing/placement.h"
#include "routing/stage_traffic.h"

namespace skerry {

RoundMessages RoundOf(const PlacementProblem& problem, const Placement& placement) {
  RoundMessages round;
  round.after_steps = problem.workload.steps / 2;
  const std::vector<std::vector<int32_t>> slots_of = SlotsByStage(problem.workload);
  for (size_t stage = 0; stage < slots_of.size(); ++stage) {
    const auto cohorts = CohortsAmong(problem, placement, slots_of[stage]);
    const double share = problem.outer.ToEach(stage, cohorts.size()).all() /
                         static_cast<double>(problem.outer.fragments);
    if (!(share > 0)) continue;
    if (round.messages.size() + cohorts.size() * (cohorts.size() - 1) > kRoundMessagesMax)
      return {};
    for (const std::vector<int32_t>& from : cohorts) {
      for (const std::vector<int32_t>& to : cohorts) {
        const int32_t sender = from.front(), receiver = to.front();
        if (sender == receiver) continue;
        const size_t pair = problem.fleet.Pair(placement[static_cast<size_t>(sender)],
                                               placement[static_cast<size_t>(receiver)]);
        if (std::isinf(problem.fleet.wire_s[pair])) continue;
        round.messages.push_back({sender, receiver, share});
      }
    }
  }
  return round;
}

double HeldUpSeconds(const PlacementProblem& problem, const Placement& placement, double step_s) {
  if (problem.outer.overlap_steps == 0) return 0;
  const RoundMessages round = RoundOf(problem, placement);
  if (round.messages.empty()) return 0;
  Evaluator evaluator(problem.workload, problem.fleet, Lines::kShared, &round);
  const double later_s = StepSeconds(evaluator, problem, placement) - step_s;
  const double rounds =
      static_cast<double>(problem.outer.fragments) / static_cast<double>(problem.outer.inner_steps);
  return std::max(0.0, later_s) * problem.workload.steps * rounds;
}

}  // namespace skerry
