#include "routing/even_placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "routing/coarse_placement.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr double kHotShare = 1;  // of the mean seconds of a slot
constexpr double kColdShare = 0.003;

double FourthPower(double x) {
  return x * x * x * x;
}

// What every slot computes and says for the microbatches of every origin, and the seconds these
// take in a placement.
class OriginTrips {
 public:
  OriginTrips(const Workload& workload, const Fleet& fleet)
      : fleet_(fleet), shares_(static_cast<size_t>(workload.slots())) {
    std::vector<std::map<std::pair<int32_t, int32_t>, double>> counts(shares_.size());
    int32_t origins = 0;
    for (const Workload::Microbatch& microbatch : workload.microbatches) {
      const int32_t origin = microbatch.slots.front();
      const size_t length = microbatch.slots.size();
      origins = std::max(origins, origin + 1);
      for (size_t hop = 0; hop < length; ++hop) {
        const int32_t a = microbatch.slots[hop];
        const int32_t b = microbatch.slots[(hop + 1) % length];
        const auto stage = static_cast<size_t>(workload.stage_of_slot[static_cast<size_t>(a)]);
        counts[static_cast<size_t>(a)][{origin, a}] +=
            (1 + kBackwardPerForward) * workload.forward_flops[stage] +
            (stage == 0 ? workload.loss_flops : 0);
        if (length == 1) continue;
        ++counts[static_cast<size_t>(a)][{origin, b}];
        ++counts[static_cast<size_t>(b)][{origin, a}];
      }
    }
    for (size_t slot = 0; slot < counts.size(); ++slot) {
      for (const auto& [key, amount] : counts[slot]) {
        shares_[slot].push_back({key.first, key.second, amount});
      }
    }
    seconds_.resize(static_cast<size_t>(origins));
  }

  // Adds `sign` times the seconds that a slot's tasks and messages take, to their origins.
  void Add(int32_t slot, const Placement& placement, double sign) {
    const int32_t node = placement[static_cast<size_t>(slot)];
    for (const Share& share : shares_[static_cast<size_t>(slot)]) {
      const double seconds =
          share.other == slot
              ? ComputeSeconds(share.amount, fleet_.gflops[static_cast<size_t>(node)])
              : share.amount *
                    BothWaysSeconds(fleet_, node, placement[static_cast<size_t>(share.other)]);
      seconds_[static_cast<size_t>(share.origin)] += sign * seconds;
    }
  }

  // As if every origin's trips took so long, summed over origins.
  double Cost() const {
    double sum = 0;
    for (const double seconds : seconds_) sum += FourthPower(seconds);
    const auto origins = static_cast<double>(seconds_.size());
    return origins * std::sqrt(std::sqrt(sum / origins));
  }

  const std::vector<double>& seconds() const { return seconds_; }
  void Restore(const std::vector<double>& seconds) { seconds_ = seconds; }

 private:
  struct Share {
    int32_t origin = 0;
    int32_t other = 0;  // the slot it exchanges messages with; itself: computing
    double amount = 0;  // messages, or operations
  };

  const Fleet& fleet_;
  std::vector<std::vector<Share>> shares_;  // [slots]
  std::vector<double> seconds_;             // [origins]
};

}  // namespace

Placement EvenPlacement(const PlacementProblem& problem, const Placement& start, uint64_t seed,
                        int64_t exchanges) {
  OriginTrips trips(problem.workload, problem.fleet);
  Rng rng(seed, "even placement");
  Placement placement = start;
  for (int32_t slot = 0; slot < problem.workload.slots(); ++slot) trips.Add(slot, placement, 1);
  double cost = trips.Cost();
  const double unit = cost / static_cast<double>(start.size());
  const double cooling = std::log(kColdShare / kHotShare) / static_cast<double>(exchanges);
  double temperature = 0;
  std::vector<double> before = trips.seconds();
  for (int64_t i = 0; i < exchanges; ++i) {
    if (i % 256 == 0) temperature = unit * kHotShare * std::exp(cooling * static_cast<double>(i));
    const auto a = static_cast<int32_t>(rng.Below(start.size()));
    const auto b = static_cast<int32_t>(rng.Below(start.size()));
    int32_t& at_a = placement[static_cast<size_t>(a)];
    int32_t& at_b = placement[static_cast<size_t>(b)];
    if (a == b || !Fits(problem, a, at_b) || !Fits(problem, b, at_a)) continue;
    // Messages between the two count twice before and after alike, their ways being symmetric.
    trips.Add(a, placement, -1);
    trips.Add(b, placement, -1);
    std::swap(at_a, at_b);
    trips.Add(a, placement, 1);
    trips.Add(b, placement, 1);
    const double next = trips.Cost();
    if (next - cost > -temperature * std::log(1.0 - rng.Uniform())) {
      std::swap(at_a, at_b);
      trips.Restore(before);
    } else {
      cost = next;
      before = trips.seconds();
    }
  }
  return placement;
}

}  // namespace skerry
