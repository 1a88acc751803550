#include "routing/placement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "routing/coarse_placement.h"
#include "routing/even_placement.h"

namespace skerry {
namespace {

constexpr double kHotShare = 0.05;     // first temperature / cost of the start
constexpr double kColdShare = 0.0005;  // last one
// A coarse search comes first: of the sum of all round trips where there are so many slots, of the
// slowest origin's, several times, where there are fewer. The fine one starts nearly cold.
constexpr size_t kCoarseSlots = 128;
constexpr int32_t kEvenStarts = 8;
constexpr int64_t kCoarseExchangesPerSlot = 2000;
constexpr double kCoarseHotShare = 0.002;
constexpr uint64_t kCycleOneIn = 3;  // every third move is a cycle of three

// The slots a move touches; `third` −1: an exchange of two.
struct Move {
  int32_t first = 0;
  int32_t second = 0;
  int32_t third = -1;
};

Move RandomMove(Rng& rng, int32_t slots) {
  const auto draw = [&] { return static_cast<int32_t>(rng.Below(static_cast<uint64_t>(slots))); };
  Move move;
  move.first = draw();
  do {
    move.second = draw();
  } while (move.second == move.first);
  if (slots >= 3 && rng.Below(kCycleOneIn) == 0) {
    do {
      move.third = draw();
    } while (move.third == move.first || move.third == move.second);
  }
  return move;
}

void Apply(const Move& move, Placement& placement) {
  const auto at = [&](int32_t slot) -> int32_t& { return placement[static_cast<size_t>(slot)]; };
  std::swap(at(move.first), at(move.second));
  if (move.third >= 0) std::swap(at(move.second), at(move.third));
}

bool FitsAfter(const PlacementProblem& problem, const Move& move, const Placement& placement) {
  for (const int32_t slot : {move.first, move.second, move.third}) {
    if (slot >= 0 && !Fits(problem, slot, placement[static_cast<size_t>(slot)])) return false;
  }
  return true;
}

PlacementResult Score(const PlacementProblem& problem, Evaluator& evaluator,
                      const Placement& placement) {
  PlacementResult result;
  result.placement = placement;
  result.step_s = evaluator.StepSeconds(placement);
  if (std::isfinite(result.step_s)) {
    result.exposed_s = ExposedSeconds(problem, placement, result.step_s);
  }
  return result;
}

std::vector<Placement> CoarsePlacements(const PlacementProblem& problem, const Placement& start,
                                        const PlacementOptions& options) {
  const int64_t exchanges = kCoarseExchangesPerSlot * static_cast<int64_t>(start.size());
  const bool large = start.size() >= kCoarseSlots;
  // Never more of them than evaluations are left after the start's.
  const int32_t count = std::min(large ? 1 : 1 + kEvenStarts, options.evaluations - 1);
  std::vector<Placement> placements;
  for (int32_t i = 0; i < count; ++i) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    placements.push_back(i == 0 ? CoarsePlacement(problem, start, seed, exchanges)
                                : EvenPlacement(problem, start, seed, exchanges));
  }
  return placements;
}

bool Accepts(Rng& rng, double from, double to, double temperature) {
  if (to <= from || std::isinf(from)) return true;
  return rng.Uniform() < std::exp((from - to) / temperature);
}

}  // namespace

double ExposedSeconds(const PlacementProblem& problem, const Placement& placement, double step_s) {
  const Workload& workload = problem.workload;
  const Fleet& fleet = problem.fleet;
  double slowest = 0;
  for (int32_t slot = 0; slot < workload.slots(); ++slot) {
    const int32_t stage = workload.stage_of_slot[static_cast<size_t>(slot)];
    double sending = 0;
    double latency = 0;
    for (int32_t other = 0; other < workload.slots(); ++other) {
      if (other == slot || workload.stage_of_slot[static_cast<size_t>(other)] != stage) continue;
      const size_t pair =
          fleet.Pair(placement[static_cast<size_t>(slot)], placement[static_cast<size_t>(other)]);
      sending += problem.outer.delta_boundaries[static_cast<size_t>(stage)] * fleet.wire_s[pair];
      latency = std::max(latency, fleet.latency_s[pair]);
    }
    slowest = std::max(slowest, sending + latency);
  }
  const double hidden = static_cast<double>(problem.outer.overlap_steps) * step_s;
  return std::max(0.0, slowest - hidden) / static_cast<double>(problem.outer.inner_steps);
}

bool Fits(const PlacementProblem& problem, int32_t slot, int32_t node) {
  if (problem.slot_bytes.empty()) return true;
  const int64_t has = problem.node_bytes[static_cast<size_t>(node)];
  return has == 0 || problem.slot_bytes[static_cast<size_t>(slot)] <= has;
}

bool Fits(const PlacementProblem& problem, const Placement& placement) {
  for (size_t slot = 0; slot < placement.size(); ++slot) {
    if (!Fits(problem, static_cast<int32_t>(slot), placement[slot])) return false;
  }
  return true;
}

PlacementResult Place(const PlacementProblem& problem, const Placement& start,
                      const PlacementOptions& options) {
  SKERRY_CHECK(Fits(problem, start));
  Evaluator evaluator(problem.workload, problem.fleet);
  PlacementResult best = Score(problem, evaluator, start);
  best.evaluations = 1;
  if (start.size() < 2) return best;

  const double alone = best.total_s();
  for (const Placement& coarse : CoarsePlacements(problem, start, options)) {
    PlacementResult scored = Score(problem, evaluator, coarse);
    ++best.evaluations;
    scored.evaluations = best.evaluations;
    if (scored.total_s() < best.total_s()) best = std::move(scored);
  }
  const double hot_share = best.total_s() < alone ? kCoarseHotShare : kHotShare;
  Rng rng(options.seed, "placement");
  PlacementResult current = best;
  double unit = best.total_s();
  const double cooling = std::log(kColdShare / hot_share) / std::max(1, options.evaluations);
  for (int32_t i = best.evaluations; i < options.evaluations; ++i) {
    Placement candidate = current.placement;
    const Move move = RandomMove(rng, static_cast<int32_t>(start.size()));
    Apply(move, candidate);
    if (!FitsAfter(problem, move, candidate)) continue;
    PlacementResult next = Score(problem, evaluator, candidate);
    ++best.evaluations;
    if (std::isinf(unit)) unit = next.total_s();
    const double temperature = unit * hot_share * std::exp(cooling * i);
    if (!Accepts(rng, current.total_s(), next.total_s(), temperature)) continue;
    current = std::move(next);
    if (current.total_s() < best.total_s()) {
      const int32_t evaluations = best.evaluations;
      best = current;
      best.evaluations = evaluations;
    }
  }
  return best;
}

}  // namespace skerry
