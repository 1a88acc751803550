#include "routing/placement.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "common/check.h"
#include "common/rng.h"
#include "routing/coarse_placement.h"
#include "routing/even_placement.h"
#include "routing/promising_placements.h"
#include "routing/room_placement.h"

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
constexpr uint64_t kRoomsOneIn = 4;  // where nodes are near, one exchanges two stages' rooms
constexpr size_t kRoomStarts = 48;
constexpr size_t kQuickRoomStarts = 6;

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

double ExposedShare(const PlacementProblem& problem, double slowest_delta_s, double step_s) {
  const double hidden = static_cast<double>(problem.outer.overlap_steps) * step_s;
  return std::max(0.0, slowest_delta_s - hidden) / static_cast<double>(problem.outer.inner_steps);
}

// Scores placements of one problem. Of what stages exchange only those that a move touched are
// worked out anew: their members have changed, nobody else's.
class Scorer {
 public:
  explicit Scorer(const PlacementProblem& problem)
      : problem_(problem),
        evaluator_(problem.workload, problem.fleet),
        lines_(LinesOfProblem(problem)),
        slots_of_(SlotsByStage(problem.workload)),
        traffic_(slots_of_.size()),
        nodes_(slots_of_.size()) {}

  PlacementResult Score(const Placement& placement) {
    PlacementResult result;
    result.placement = placement;
    result.step_s = StepSeconds(evaluator_, problem_, placement);
    if (!std::isfinite(result.step_s)) return result;
    double slowest_delta_s = 0, distance = 0;
    for (size_t stage = 0; stage < slots_of_.size(); ++stage) {
      const StageTraffic& traffic = TrafficNow(placement, stage);
      slowest_delta_s = std::max(slowest_delta_s, traffic.delta_s);
      result.ring_s = std::max(result.ring_s, traffic.ring_s);
      distance += traffic.distance;
    }
    result.exposed_s = ExposedShare(problem_, slowest_delta_s, result.step_s);
    result.distance = Distance(problem_, placement) + problem_.workload.steps * distance;
    return result;
  }

 private:
  const StageTraffic& TrafficNow(const Placement& placement, size_t stage) {
    const std::vector<int32_t>& slots = slots_of_[stage];
    nodes_now_.clear();
    for (const int32_t slot : slots) nodes_now_.push_back(placement[static_cast<size_t>(slot)]);
    if (nodes_now_ != nodes_[stage]) {
      nodes_[stage] = nodes_now_;
      traffic_[stage] = TrafficOf(problem_, *lines_, placement, stage, slots);
    }
    return traffic_[stage];
  }

  const PlacementProblem& problem_;
  Evaluator evaluator_;
  std::shared_ptr<const NodeLines> lines_;
  std::vector<std::vector<int32_t>> slots_of_;  // [stage]
  std::vector<StageTraffic> traffic_;           // [stage] between nodes_
  std::vector<std::vector<int32_t>> nodes_;     // [stage] by slot; empty: nothing known yet
  std::vector<int32_t> nodes_now_;
};

double Cost(const PlacementResult& result, double usual) {
  return PlacementCost(result.total_s(), result.distance, usual);
}

// Into `best`, if it is as fast as `alone` at least and costs less.
void Try(const Placement& placement, double alone, double usual, Scorer& scorer,
         PlacementResult& best) {
  PlacementResult scored = scorer.Score(placement);
  scored.evaluations = ++best.evaluations;
  if (scored.total_s() <= alone && Cost(scored, usual) < Cost(best, usual))
    best = std::move(scored);
}

std::vector<Placement> PlacementsByRooms(const PlacementProblem& problem, const Placement& start,
                                         const PlacementOptions& options) {
  const bool quick = options.effort == PlacementEffort::kQuick;
  const auto most = static_cast<size_t>(options.evaluations / 4);
  return RoomPlacements(problem, start, options.seed,
                        std::min(most, quick ? kQuickRoomStarts : kRoomStarts));
}

std::vector<Placement> CoarsePlacements(const PlacementProblem& problem, const Placement& start,
                                        const PlacementOptions& options, int32_t most) {
  const bool quick = options.effort == PlacementEffort::kQuick;
  const int64_t exchanges =
      kCoarseExchangesPerSlot * static_cast<int64_t>(start.size()) / (quick ? kQuickShare : 1);
  const bool large = start.size() >= kCoarseSlots;
  const int32_t starts = large ? 1 : quick ? 2 : 1 + kEvenStarts;
  const int32_t count = std::min(starts, most);
  std::vector<Placement> placements;
  for (int32_t i = 0; i < count; ++i) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    placements.push_back(i == 0 ? CoarsePlacement(problem, start, seed, exchanges)
                                : EvenPlacement(problem, start, seed, exchanges));
  }
  return placements;
}

// The best there is, if the evaluations suffice.
void TryPromising(const PlacementProblem& problem, double alone, double usual, int32_t evaluations,
                  Scorer& scorer, PlacementResult& best) {
  const auto most = static_cast<size_t>(std::max(0, evaluations - best.evaluations));
  for (const PromisingPlacement& next : PromisingPlacements(problem, usual, most)) {
    if (next.cost_least >= Cost(best, usual)) return;
    Try(next.placement, alone, usual, scorer, best);
  }
}

bool Accepts(Rng& rng, double from, double to, double temperature) {
  if (to <= from || std::isinf(from)) return true;
  return rng.Uniform() < std::exp((from - to) / temperature);
}

struct Annealing {
  const PlacementProblem& problem;
  const Rooms& rooms;
  double alone = 0;  // seconds of the start
  double usual = 0;  // its distance
  double hot_share = 0;
  int32_t begin = 0;  // evaluations [begin, end)
  int32_t end = 0;
};

// From the best, which it makes better.
void Anneal(const Annealing& annealing, Rng& rng, Scorer& scorer, PlacementResult& best) {
  const auto& [problem, rooms, alone, usual, hot_share, begin, end] = annealing;
  PlacementResult current = best;
  double unit = Cost(best, usual);
  const double cooling = std::log(kColdShare / hot_share) / std::max(1, end - begin);
  for (int32_t i = begin; i < end; ++i) {
    Placement candidate = current.placement;
    if (rooms.Any() && rng.Below(kRoomsOneIn) == 0) {
      if (!rooms.Exchange(rng, candidate) || !Fits(problem, candidate)) continue;
    } else {
      const Move move = RandomMove(rng, static_cast<int32_t>(candidate.size()));
      Apply(move, candidate);
      if (!FitsAfter(problem, move, candidate)) continue;
    }
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
  const std::shared_ptr<const NodeLines> lines = LinesOfProblem(problem);
  for (size_t stage = 0; stage < slots_of.size(); ++stage) {
    const StageTraffic traffic = TrafficOf(problem, *lines, placement, stage, slots_of[stage]);
    slowest = std::max(slowest, traffic.delta_s);
  }
  return ExposedShare(problem, slowest, step_s);
}

bool Fits(const PlacementProblem& problem, int32_t slot, int32_t node) {
  if (problem.fits.empty()) return true;
  const auto stage = static_cast<size_t>(problem.workload.stage_of_slot[static_cast<size_t>(slot)]);
  const auto nodes = static_cast<size_t>(problem.fleet.size());
  return problem.fits[stage * nodes + static_cast<size_t>(node)] != 0;
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
  for (const Placement& by_rooms : PlacementsByRooms(problem, start, options))
    Try(by_rooms, alone, usual, scorer, best);
  if (start.size() <= kAllRankedSlots) {
    TryPromising(problem, alone, usual, options.evaluations, scorer, best);
    return best;
  }
  const int32_t left = options.evaluations - best.evaluations;
  for (const Placement& coarse : CoarsePlacements(problem, start, options, left))
    Try(coarse, alone, usual, scorer, best);
  const double hot_share = best.total_s() < alone ? kCoarseHotShare : kHotShare;
  const Rooms rooms(problem, start);
  Rng rng(options.seed, "placement");
  const bool again = start.size() <= kHotSlots;
  int32_t end = again ? options.evaluations / (1 + kHotAnnealings) : options.evaluations;
  Anneal({problem, rooms, alone, usual, hot_share, best.evaluations, end}, rng, scorer, best);
  for (int32_t i = 1; again && i <= kHotAnnealings; ++i) {
    const int32_t begin = std::max(end, best.evaluations);
    end = begin + (options.evaluations - begin) / (1 + kHotAnnealings - i);
    Anneal({problem, rooms, alone, usual, kHotShare, begin, end}, rng, scorer, best);
  }
  return best;
}

}  // namespace skerry
