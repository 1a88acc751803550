#include "pipeline/plan/rough_step.h"

#include <algorithm>
#include <utility>

#include "routing/cost_model.h"

namespace skerry {

RoughStep::RoughStep(const PlanModel& model, const std::vector<double>& gflops)
    : workload_(model.problem.workload),
      fleet_(model.problem.fleet),
      usual_gflops_(gflops),
      placement_(model.placement),
      gflops_(gflops) {
  const auto slots = static_cast<size_t>(workload_.slots());
  flops_.resize(slots);
  tours_.resize(slots);
  homes_.resize(slots);
  for (const Workload::Microbatch& microbatch : workload_.microbatches) {
    const size_t length = microbatch.slots.size();
    const int32_t home = microbatch.slots.front();
    for (size_t hop = 0; hop < length; ++hop) {
      const int32_t slot = microbatch.slots[hop];
      const auto at = static_cast<size_t>(slot);
      const auto stage = static_cast<size_t>(workload_.stage_of_slot[at]);
      const double flops = (1 + kBackwardPerForward) * workload_.forward_flops[stage] +
                           (hop == 0 ? workload_.loss_flops : 0);
      flops_[at].push_back(flops);
      tours_[static_cast<size_t>(home)].push_back(
          {slot, microbatch.slots[(hop + 1) % length], flops});
      std::vector<int32_t>& homes = homes_[at];
      if (std::find(homes.begin(), homes.end(), home) == homes.end()) homes.push_back(home);
    }
  }
  for (int32_t slot = 0; slot < workload_.slots(); ++slot) {
    busy_.push_back(BusySeconds(slot));
    around_.push_back(AroundSeconds(slot));
  }
}

double RoughStep::BusySeconds(int32_t slot) const {
  const auto at = static_cast<size_t>(slot);
  double busy_s = 0;
  for (const double flops : flops_[at]) busy_s += ComputeSeconds(flops, gflops_[at]);
  return busy_s;
}

double RoughStep::AroundSeconds(int32_t home) const {
  double around_s = 0;
  for (const Hop& hop : tours_[static_cast<size_t>(home)]) {
    const auto slot = static_cast<size_t>(hop.slot), next = static_cast<size_t>(hop.next);
    around_s += ComputeSeconds(hop.flops, gflops_[slot]);
    if (slot == next) continue;
    const size_t there = fleet_.Pair(placement_[slot], placement_[next]);
    const size_t back = fleet_.Pair(placement_[next], placement_[slot]);
    around_s += fleet_.latency_s[there] + fleet_.wire_s[there] + fleet_.latency_s[back] +
                fleet_.wire_s[back] + 2 * fleet_.handling_s;
  }
  return around_s;
}

void RoughStep::Touch(int32_t slot) {
  busy_anew_[static_cast<size_t>(slot)] = 1;
  for (const int32_t home : homes_[static_cast<size_t>(slot)])
    around_anew_[static_cast<size_t>(home)] = 1;
}

double RoughStep::Seconds(int32_t slot, int32_t other) {
  busy_anew_.assign(busy_.size(), 0);
  around_anew_.assign(busy_.size(), 0);
  Touch(slot);
  Touch(other);
  for (int32_t third = 0; third < workload_.slots(); ++third) {
    const auto at = static_cast<size_t>(third);
    if (gflops_[at] != usual_gflops_[at]) Touch(third);
  }
  double most = 0;
  for (int32_t third = 0; third < workload_.slots(); ++third) {
    const auto at = static_cast<size_t>(third);
    const double busy_s = busy_anew_[at] != 0 ? BusySeconds(third) : busy_[at];
    const double around_s = around_anew_[at] != 0 ? AroundSeconds(third) : around_[at];
    most = std::max({most, busy_s, around_s / workload_.in_flight});
  }
  return most / workload_.steps;
}

double RoughStep::Exchanged(int32_t slot, int32_t other) {
  const auto a = static_cast<size_t>(slot), b = static_cast<size_t>(other);
  const auto exchange = [&] {
    std::swap(placement_[a], placement_[b]);
    std::swap(gflops_[a], gflops_[b]);
  };
  exchange();
  const double seconds = Seconds(slot, other);
  exchange();
  return seconds;
}

double RoughStep::Replaced(int32_t slot, int32_t node, const std::vector<double>& gflops) {
  const auto at = static_cast<size_t>(slot);
  const int32_t before = std::exchange(placement_[at], node);
  gflops_ = gflops;
  const double seconds = Seconds(slot, slot);
  gflops_ = usual_gflops_;
  placement_[at] = before;
  return seconds;
}

}  // namespace skerry
