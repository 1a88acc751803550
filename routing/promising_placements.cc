#include "routing/promising_placements.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

// Pairs that are near leave alone the links that houses and regions share, of which no measurement
// of pairs tells.
constexpr double kDistanceWeight = 0.1;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;  // what sums in another order may differ by

struct Way {
  size_t a = 0, b = 0;
  double messages = 0;  // each way
};

// What one origin's microbatches ask of slots and of ways between them, in all steps.
struct OriginNeeds {
  std::vector<std::pair<size_t, double>> flops;  // slot, operations
  std::vector<Way> ways;
};

class Bound {
 public:
  explicit Bound(const PlacementProblem& problem)
      : problem_(problem), flops_(static_cast<size_t>(problem.workload.slots())) {
    std::map<size_t, std::map<size_t, double>> flops;
    std::map<size_t, std::map<std::pair<size_t, size_t>, double>> ways;
    for (const Workload::Microbatch& microbatch : problem.workload.microbatches) {
      const auto origin = static_cast<size_t>(microbatch.slots.front());
      const size_t length = microbatch.slots.size();
      for (size_t hop = 0; hop < length; ++hop) {
        const auto a = static_cast<size_t>(microbatch.slots[hop]);
        const auto b = static_cast<size_t>(microbatch.slots[(hop + 1) % length]);
        flops[origin][a] += VisitFlops(a);
        flops_[a] += VisitFlops(a);
        if (a != b) ++ways[origin][{std::min(a, b), std::max(a, b)}];
      }
    }
    std::map<std::pair<size_t, size_t>, double> all_ways;
    for (const auto& [origin, of_slots] : flops) {
      OriginNeeds& needs = origins_.emplace_back();
      needs.flops.assign(of_slots.begin(), of_slots.end());
      for (const auto& [pair, messages] : ways[origin]) {
        needs.ways.push_back({pair.first, pair.second, messages});
        all_ways[pair] += messages;
      }
    }
    for (const auto& [pair, messages] : all_ways) {
      ways_.push_back({pair.first, pair.second, messages});
    }
    MeasurePairs();
  }

  double CostLeast(const Placement& placement, double usual) const {
    const Workload& work = problem_.workload;
    double slowest = 0;
    for (size_t slot = 0; slot < placement.size(); ++slot) {
      slowest = std::max(slowest, ComputeSeconds(flops_[slot], SpeedAt(placement, slot)));
    }
    for (const OriginNeeds& origin : origins_) {
      double around = 0;
      for (const auto& [slot, flops] : origin.flops) {
        around += ComputeSeconds(flops, SpeedAt(placement, slot));
      }
      for (const auto& [a, b, messages] : origin.ways) {
        around += messages * both_ways_s_[PairAt(placement, a, b)];
      }
      slowest = std::max(slowest, around / work.in_flight);
    }
    double distance = 0;
    for (const auto& [a, b, messages] : ways_) {
      distance += messages * root_s_[PairAt(placement, a, b)];
    }
    return PlacementCost(slowest / work.steps, distance, usual) * (1 - kRounding);
  }

 private:
  double VisitFlops(size_t slot) const {
    const Workload& work = problem_.workload;
    const auto stage = static_cast<size_t>(work.stage_of_slot[slot]);
    return (1 + kBackwardPerForward) * work.forward_flops[stage] +
           (stage == 0 ? work.loss_flops : 0);
  }
  double TravelSeconds(int32_t from, int32_t to) const {
    const size_t pair = problem_.fleet.Pair(from, to);
    return problem_.fleet.latency_s[pair] + problem_.fleet.TravelWire(pair);
  }
  double SpeedAt(const Placement& placement, size_t slot) const {
    return problem_.fleet.gflops[static_cast<size_t>(placement[slot])];
  }
  size_t PairAt(const Placement& placement, size_t a, size_t b) const {
    return static_cast<size_t>(placement[a]) * placement.size() + static_cast<size_t>(placement[b]);
  }

  void MeasurePairs() {
    const Fleet& fleet = problem_.fleet;
    const int32_t n = fleet.size();
    for (int32_t i = 0; i < n; ++i) {
      for (int32_t j = 0; j < n; ++j) {
        both_ways_s_.push_back(i == j ? 0 : TravelSeconds(i, j) + TravelSeconds(j, i));
        root_s_.push_back(i == j ? 0
                                 : std::sqrt(fleet.latency_s[fleet.Pair(i, j)]) +
                                       std::sqrt(fleet.latency_s[fleet.Pair(j, i)]));
      }
    }
  }

  const PlacementProblem& problem_;
  std::vector<double> flops_;  // [slots]
  std::vector<OriginNeeds> origins_;
  std::vector<Way> ways_;            // of all origins
  std::vector<double> both_ways_s_;  // [nodes, nodes]
  std::vector<double> root_s_;       // [nodes, nodes]
};

// The permutation of this number in lexicographic order.
Placement Numbered(uint32_t number, size_t slots) {
  Placement left(slots), placement;
  std::iota(left.begin(), left.end(), 0);
  uint32_t orders = 1;
  for (uint32_t i = 2; i < slots; ++i) orders *= i;
  for (size_t rest = slots - 1; !left.empty(); --rest) {
    const auto next = left.begin() + number / orders;
    placement.push_back(*next);
    left.erase(next);
    number %= orders;
    if (rest > 0) orders /= static_cast<uint32_t>(rest);
  }
  return placement;
}

}  // namespace

std::vector<PromisingPlacement> PromisingPlacements(const PlacementProblem& problem, double usual,
                                                    size_t most) {
  const auto slots = static_cast<size_t>(problem.workload.slots());
  SKERRY_CHECK(slots <= kAllRankedSlots);
  const Bound bound(problem);
  std::vector<std::pair<double, uint32_t>> ranked;  // bound, number in lexicographic order
  Placement every(slots);
  std::iota(every.begin(), every.end(), 0);
  uint32_t number = 0;
  do {
    const double least = Fits(problem, every) ? bound.CostLeast(every, usual) : kNever;
    if (std::isfinite(least)) ranked.emplace_back(least, number);
    ++number;
  } while (std::next_permutation(every.begin(), every.end()));
  const auto end = ranked.begin() + static_cast<std::ptrdiff_t>(std::min(most, ranked.size()));
  std::partial_sort(ranked.begin(), end, ranked.end());
  std::vector<PromisingPlacement> promising;
  for (auto next = ranked.begin(); next != end; ++next) {
    promising.push_back({next->first, Numbered(next->second, slots)});
  }
  return promising;
}

double Distance(const PlacementProblem& problem, const Placement& placement) {
  double distance = 0;
  for (const Workload::Microbatch& microbatch : problem.workload.microbatches) {
    int32_t last = placement[static_cast<size_t>(microbatch.slots.back())];
    for (const int32_t slot : microbatch.slots) {
      const int32_t node = placement[static_cast<size_t>(slot)];
      if (node != last) {
        distance += std::sqrt(problem.fleet.latency_s[problem.fleet.Pair(last, node)]) +
                    std::sqrt(problem.fleet.latency_s[problem.fleet.Pair(node, last)]);
      }
      last = node;
    }
  }
  return distance;
}

double PlacementCost(double total_s, double distance, double usual) {
  const double share = usual > 0 ? distance / usual : 0;
  return total_s * (1 + kDistanceWeight * share);
}

}  // namespace skerry
