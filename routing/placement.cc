#include "routing/placement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "routing/coarse_placement.h"
#include "routing/even_placement.h"
#include "routing/promising_placements.h"

namespace skerry {
namespace {

constexpr double kHotShare = 0.05;     // first temperature / cost of the start
constexpr double kColdShare = 0.0005;  // last one
// A coarse search comes first: of the sum of all round trips where there are so many slots, of the
// slowest origin's, several times, where there are fewer. The fine one starts nearly cold.
constexpr size_t kCoarseSlots = 128;
constexpr int32_t kEvenStarts = 8;
constexpr int64_t kCoarseExchangesPerSlot = 2000;
constexpr int64_t kQuickShare = 10;  // of those
constexpr double kCoarseHotShare = 0.002;
// Up to so many slots what is good on round trips alone need not be near what is best: hot
// annealings from the best follow, as many as fit into an equal number of evaluations each.
constexpr size_t kHotSlots = 12;
constexpr int32_t kHotAnnealings = 2;
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

std::vector<std::vector<int32_t>> SlotsByStage(const Workload& workload) {
  std::vector<std::vector<int32_t>> slots_of;
  for (int32_t slot = 0; slot < workload.slots(); ++slot) {
    const auto stage = static_cast<size_t>(workload.stage_of_slot[static_cast<size_t>(slot)]);
    if (stage >= slots_of.size()) slots_of.resize(stage + 1);
    slots_of[stage].push_back(slot);
  }
  return slots_of;
}

// Until the delta of `slot` has reached all `replicas` of its stage.
double DeltaSeconds(const PlacementProblem& problem, const Placement& placement, size_t stage,
                    const std::vector<int32_t>& replicas, int32_t slot) {
  const Fleet& fleet = problem.fleet;
  const double delta_boundaries = problem.outer.delta_boundaries[stage];
  const int32_t from = placement[static_cast<size_t>(slot)];
  double sending = 0;
  double latency = 0;
  for (const int32_t other : replicas) {
    if (other == slot) continue;
    const size_t pair = fleet.Pair(from, placement[static_cast<size_t>(other)]);
    sending += delta_boundaries * fleet.wire_s[pair];
    latency = std::max(latency, fleet.latency_s[pair]);
  }
  return sending + latency;
}

double ExposedShare(const PlacementProblem& problem, double slowest_delta_s, double step_s) {
  const double hidden = static_cast<double>(problem.outer.overlap_steps) * step_s;
  return std::max(0.0, slowest_delta_s - hidden) / static_cast<double>(problem.outer.inner_steps);
}

// Scores placements of one problem. Of the delta exchanges only those of stages that a move touched
// are worked out anew: their members have changed, nobody else's.
class Scorer {
 public:
  explicit Scorer(const PlacementProblem& problem)
      : problem_(problem),
        evaluator_(problem.workload, problem.fleet),
        slots_of_(SlotsByStage(problem.workload)),
        slowest_(slots_of_.size()),
        nodes_(slots_of_.size()) {}

  PlacementResult Score(const Placement& placement) {
    PlacementResult result;
    result.placement = placement;
    result.step_s = evaluator_.StepSeconds(placement);
    if (std::isfinite(result.step_s)) {
      result.exposed_s = ExposedShare(problem_, SlowestDelta(placement), result.step_s);
      result.distance = Distance(problem_, placement);
    }
    return result;
  }

 private:
  double SlowestDelta(const Placement& placement) {
    double slowest = 0;
    for (size_t stage = 0; stage < slots_of_.size(); ++stage) {
      const std::vector<int32_t>& slots = slots_of_[stage];
      nodes_now_.clear();
      for (const int32_t slot : slots) nodes_now_.push_back(placement[static_cast<size_t>(slot)]);
      if (nodes_now_ != nodes_[stage]) {
        nodes_[stage] = nodes_now_;
        slowest_[stage] = 0;
        for (const int32_t slot : slots) {
          slowest_[stage] =
              std::max(slowest_[stage], DeltaSeconds(problem_, placement, stage, slots, slot));
        }
      }
      slowest = std::max(slowest, slowest_[stage]);
    }
    return slowest;
  }

  const PlacementProblem& problem_;
  Evaluator evaluator_;
  std::vector<std::vector<int32_t>> slots_of_;  // [stage]
  std::vector<double> slowest_;                 // [stage] of the deltas between nodes_
  std::vector<std::vector<int32_t>> nodes_;     // [stage] by slot; empty: nothing known yet
  std::vector<int32_t> nodes_now_;
};

std::vector<Placement> CoarsePlacements(const PlacementProblem& problem, const Placement& start,
                                        const PlacementOptions& options) {
  const bool quick = options.effort == PlacementEffort::kQuick;
  const int64_t exchanges =
      kCoarseExchangesPerSlot * static_cast<int64_t>(start.size()) / (quick ? kQuickShare : 1);
  const bool large = start.size() >= kCoarseSlots;
  const int32_t starts = large ? 1 : quick ? 2 : 1 + kEvenStarts;
  // Never more of them than evaluations are left after the start's.
  const int32_t count = std::min(starts, options.evaluations - 1);
  std::vector<Placement> placements;
  for (int32_t i = 0; i < count; ++i) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    placements.push_back(i == 0 ? CoarsePlacement(problem, start, seed, exchanges)
                                : EvenPlacement(problem, start, seed, exchanges));
  }
  return placements;
}

double Cost(const PlacementResult& result, double usual) {
  return PlacementCost(result.total_s(), result.distance, usual);
}

// Into `best`, if one is as fast as `alone` at least and costs less: the best there is, if the
// evaluations suffice.
void TryPromising(const PlacementProblem& problem, double alone, double usual, int32_t evaluations,
                  Scorer& scorer, PlacementResult& best) {
  const auto most = static_cast<size_t>(std::max(0, evaluations - best.evaluations));
  for (const PromisingPlacement& next : PromisingPlacements(problem, usual, most)) {
    if (next.cost_least >= Cost(best, usual)) return;
    PlacementResult scored = scorer.Score(next.placement);
    scored.evaluations = ++best.evaluations;
    if (scored.total_s() <= alone && Cost(scored, usual) < Cost(best, usual)) {
      best = std::move(scored);
    }
  }
}

bool Accepts(Rng& rng, double from, double to, double temperature) {
  if (to <= from || std::isinf(from)) return true;
  return rng.Uniform() < std::exp((from - to) / temperature);
}

struct Annealing {
  const PlacementProblem& problem;
  double alone = 0;  // seconds of the start
  double usual = 0;  // its distance
  double hot_share = 0;
  int32_t begin = 0;  // evaluations [begin, end)
  int32_t end = 0;
};

// From the best, which it makes better.
void Anneal(const Annealing& annealing, Rng& rng, Scorer& scorer, PlacementResult& best) {
  const auto& [problem, alone, usual, hot_share, begin, end] = annealing;
  PlacementResult current = best;
  double unit = Cost(best, usual);
  const double cooling = std::log(kColdShare / hot_share) / std::max(1, end - begin);
  for (int32_t i = begin; i < end; ++i) {
    Placement candidate = current.placement;
    const Move move = RandomMove(rng, static_cast<int32_t>(candidate.size()));
    Apply(move, candidate);
    if (!FitsAfter(problem, move, candidate)) continue;
    PlacementResult next = scorer.Score(candidate);
    ++best.evaluations;
    if (std::isinf(unit)) unit = Cost(next, usual);
    const double temperature = unit * hot_share * std::exp(cooling * (i - begin));
    if (!Accepts(rng, Cost(current, usual), Cost(next, usual), temperature)) continue;
    current = std::move(next);
    if (current.total_s() <= alone && Cost(current, usual) < Cost(best, usual)) {
      const int32_t evaluations = best.evaluations;
      best = current;
      best.evaluations = evaluations;
    }
  }
}

}  // namespace

double ExposedSeconds(const PlacementProblem& problem, const Placement& placement, double step_s) {
  double slowest = 0;
  const std::vector<std::vector<int32_t>> slots_of = SlotsByStage(problem.workload);
  for (size_t stage = 0; stage < slots_of.size(); ++stage) {
    for (const int32_t slot : slots_of[stage])
      slowest = std::max(slowest, DeltaSeconds(problem, placement, stage, slots_of[stage], slot));
  }
  return ExposedShare(problem, slowest, step_s);
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
  Scorer scorer(problem);
  PlacementResult best = scorer.Score(start);
  best.evaluations = 1;
  if (start.size() < 2 || options.evaluations <= 1) return best;

  const double alone = best.total_s();
  const double usual = best.distance;
  if (start.size() <= kAllRankedSlots) {
    TryPromising(problem, alone, usual, options.evaluations, scorer, best);
    return best;
  }
  for (const Placement& coarse : CoarsePlacements(problem, start, options)) {
    PlacementResult scored = scorer.Score(coarse);
    ++best.evaluations;
    scored.evaluations = best.evaluations;
    if (scored.total_s() <= alone && Cost(scored, usual) < Cost(best, usual))
      best = std::move(scored);
  }
  const double hot_share = best.total_s() < alone ? kCoarseHotShare : kHotShare;
  Rng rng(options.seed, "placement");
  const bool again = start.size() <= kHotSlots;
  int32_t end = again ? options.evaluations / (1 + kHotAnnealings) : options.evaluations;
  Anneal({problem, alone, usual, hot_share, best.evaluations, end}, rng, scorer, best);
  for (int32_t i = 1; again && i <= kHotAnnealings; ++i) {
    const int32_t begin = std::max(end, best.evaluations);
    end = begin + (options.evaluations - begin) / (1 + kHotAnnealings - i);
    Anneal({problem, alone, usual, kHotShare, begin, end}, rng, scorer, best);
  }
  return best;
}

}  // namespace skerry
