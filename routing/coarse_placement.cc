#include "routing/coarse_placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr double kUnusableSeconds = 1e6;
constexpr double kHotShare = 3;  // of the mean seconds of a slot
constexpr double kColdShare = 0.003;

// What the slots say to each other and compute, per run of the workload.
class RoundTrips {
 public:
  RoundTrips(const Workload& workload, const Fleet& fleet)
      : fleet_(fleet),
        messages_(static_cast<size_t>(workload.slots())),
        flops_(static_cast<size_t>(workload.slots())) {
    both_ways_s_.reserve(fleet.gflops.size() * fleet.gflops.size());
    for (int32_t a = 0; a < fleet.size(); ++a) {
      for (int32_t b = 0; b < fleet.size(); ++b)
        both_ways_s_.push_back(BothWaysSeconds(fleet, a, b));
    }
    std::vector<std::map<int32_t, double>> counts(messages_.size());
    for (const Workload::Microbatch& microbatch : workload.microbatches) {
      const size_t length = microbatch.slots.size();
      for (size_t hop = 0; hop < length; ++hop) {
        const int32_t a = microbatch.slots[hop];
        const int32_t b = microbatch.slots[(hop + 1) % length];
        const auto stage = static_cast<size_t>(workload.stage_of_slot[static_cast<size_t>(a)]);
        flops_[static_cast<size_t>(a)] +=
            (1 + kBackwardPerForward) * workload.forward_flops[stage] +
            (stage == 0 ? workload.loss_flops : 0);
        if (length == 1) continue;
        ++counts[static_cast<size_t>(a)][b];
        ++counts[static_cast<size_t>(b)][a];
      }
    }
    for (size_t slot = 0; slot < counts.size(); ++slot) {
      messages_[slot].assign(counts[slot].begin(), counts[slot].end());
    }
  }

  // Seconds that a slot's tasks and its messages, both ways, take where it is.
  double Of(int32_t slot, const Placement& placement) const {
    const auto i = static_cast<size_t>(slot);
    const int32_t node = placement[i];
    double seconds = ComputeSeconds(flops_[i], fleet_.gflops[static_cast<size_t>(node)]);
    for (const auto& [other, count] : messages_[i]) {
      const int32_t to = placement[static_cast<size_t>(other)];
      seconds += count * both_ways_s_[fleet_.Pair(node, to)];
    }
    return seconds;
  }

 private:
  const Fleet& fleet_;
  std::vector<std::vector<std::pair<int32_t, double>>> messages_;  // [slot] (other slot, how many)
  std::vector<double> flops_;
  std::vector<double> both_ways_s_;  // [n, n]: one look instead of four, far apart in memory
};

}  // namespace

double BothWaysSeconds(const Fleet& fleet, int32_t a, int32_t b) {
  const size_t there = fleet.Pair(a, b);
  const size_t back = fleet.Pair(b, a);
  const double ways_s =
      fleet.latency_s[there] + fleet.wire_s[there] + fleet.latency_s[back] + fleet.wire_s[back];
  return std::min(ways_s + 2 * fleet.handling_s, kUnusableSeconds);
}

Placement CoarsePlacement(const PlacementProblem& problem, const Placement& start, uint64_t seed,
                          int64_t exchanges) {
  const RoundTrips trips(problem.workload, problem.fleet);
  Rng rng(seed, "coarse placement");
  Placement placement = start;
  double sum = 0;
  for (int32_t slot = 0; slot < problem.workload.slots(); ++slot) sum += trips.Of(slot, placement);
  const double unit = sum / static_cast<double>(start.size());
  const double cooling = std::log(kColdShare / kHotShare) / static_cast<double>(exchanges);
  double temperature = 0;
  for (int64_t i = 0; i < exchanges; ++i) {
    if (i % 256 == 0) temperature = unit * kHotShare * std::exp(cooling * static_cast<double>(i));
    const auto a = static_cast<int32_t>(rng.Below(start.size()));
    const auto b = static_cast<int32_t>(rng.Below(start.size()));
    int32_t& at_a = placement[static_cast<size_t>(a)];
    int32_t& at_b = placement[static_cast<size_t>(b)];
    if (a == b || !Fits(problem, a, at_b) || !Fits(problem, b, at_a)) continue;
    // Messages between the two count twice before and after alike, their ways being symmetric.
    const double before = trips.Of(a, placement) + trips.Of(b, placement);
    std::swap(at_a, at_b);
    const double change = trips.Of(a, placement) + trips.Of(b, placement) - before;
    if (change > -temperature * std::log(1.0 - rng.Uniform())) std::swap(at_a, at_b);
  }
  return placement;
}

}  // namespace skerry
