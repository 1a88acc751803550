#include "routing/round_cost.h"

#include <algorithm>

#include "routing/placement.h"

namespace skerry {
namespace {

// All messages of one end of a leg: through its line, and the slowest link by itself.
struct Leg {
  double link_s = 0;
  double line_s = 0;
  void Add(double link, double line) {
    link_s = std::max(link_s, link);
    line_s += line;
  }
  double seconds() const { return std::max(link_s, line_s); }
};

}  // namespace

std::vector<SpeakerCost> SpeakerCosts(const PlacementProblem& problem, const NodeLines& lines,
                                      const Placement& placement,
                                      const std::vector<std::vector<int32_t>>& cohorts) {
  const Fleet& fleet = problem.fleet;
  const size_t speakers = cohorts.size();
  const auto node = [&](size_t cohort, size_t member) {
    return placement[static_cast<size_t>(cohorts[cohort][member])];
  };
  std::vector<SpeakerCost> costs(speakers);
  std::vector<Leg> in(speakers);
  std::vector<double> passing_s(speakers);
  for (size_t from = 0; from < speakers; ++from) {
    Leg out, passed;
    for (size_t to = 0; to < speakers; ++to) {
      if (to == from) continue;
      const size_t pair = fleet.Pair(node(from, 0), node(to, 0));
      out.Add(fleet.wire_s[pair], lines.up_s[pair]);
      in[to].Add(fleet.wire_s[pair], lines.down_s[pair]);
      costs[from].latency_s = std::max(costs[from].latency_s, fleet.latency_s[pair]);
    }
    costs[from].leg_s = out.seconds();
    for (size_t member = 1; member < cohorts[from].size(); ++member) {
      const size_t pair = fleet.Pair(node(from, 0), node(from, member));
      passed.Add(fleet.wire_s[pair], lines.up_s[pair]);
    }
    passing_s[from] = passed.seconds();
  }
  double slowest = 0, second = 0;  // of all cohorts
  for (const double seconds : passing_s) {
    second = std::max(second, std::min(slowest, seconds));
    slowest = std::max(slowest, seconds);
  }
  for (size_t i = 0; i < speakers; ++i) {
    costs[i].leg_s = std::max(costs[i].leg_s, in[i].seconds());
    costs[i].passing_s = passing_s[i] < slowest ? slowest : second;
  }
  return costs;
}

RoundTime TimeOfRound(const SpeakerCost& cost, const RoundAmounts& amounts, size_t speakers,
                      double handling_s) {
  RoundTime time;
  if (speakers < 2 || !(amounts.first > 0)) return time;
  const bool is_sharded = amounts.sums > 0;
  time.legs_s = amounts.all() * cost.leg_s;
  time.latency_s = (is_sharded ? 2 : 1) * cost.latency_s;
  time.after_s = amounts.all() * handling_s;
  if (cost.passing_s > 0) {
    const double message = is_sharded ? amounts.sums : amounts.first;
    const auto messages = static_cast<double>(is_sharded ? speakers : speakers - 1);
    time.after_s += message * (messages * cost.passing_s + handling_s);
  }
  return time;
}

std::shared_ptr<const NodeLines> LinesOfProblem(const PlacementProblem& problem) {
  if (problem.lines != nullptr) return problem.lines;
  return std::make_shared<const NodeLines>(LinesOf(problem.fleet));
}

}  // namespace skerry
