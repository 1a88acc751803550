#include "routing/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "common/check.h"
#include "routing/assignment.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

constexpr double kUnusable = 1e9;  // seconds: finite, so that assignments stay solvable

double Travel(const Fleet& fleet, int32_t from, int32_t to) {
  const size_t pair = fleet.Pair(from, to);
  return std::min(fleet.latency_s[pair] + fleet.TravelWire(pair), kUnusable);
}

double VisitFlops(const Workload& workload, int32_t slot) {
  const int32_t stage = workload.stage_of_slot[static_cast<size_t>(slot)];
  return (1.0 + kBackwardPerForward) * workload.forward_flops[static_cast<size_t>(stage)] +
         (stage == 0 ? workload.loss_flops : 0.0);
}

// Of the optimizer, in each step in which the slot has a visit.
double StepFlops(const Workload& workload, int32_t slot) {
  const auto stage = static_cast<size_t>(workload.stage_of_slot[static_cast<size_t>(slot)]);
  return workload.step_flops.empty() ? 0 : workload.step_flops[stage];
}

// A tour's messages: forward along the path, home, and all of that back again.
template <typename Visit>
void ForEachMessage(const Workload::Microbatch& microbatch, Visit visit) {
  const size_t length = microbatch.slots.size();
  if (length == 1) return;
  for (size_t hop = 0; hop < length; ++hop) {
    const int32_t a = microbatch.slots[hop];
    const int32_t b = microbatch.slots[(hop + 1) % length];
    visit(a, b);
    visit(b, a);
  }
}

// The round trips of one origin in one step.
struct Trips {
  int32_t count = 0;
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;

  void Add(double rtt) {
    ++count;
    sum += rtt;
    least = std::min(least, rtt);
    most = std::max(most, rtt);
  }
  double Bound(int32_t in_flight) const {
    const double waves = (count + in_flight - 1) / in_flight;
    return std::max({sum / in_flight, waves * least, most});
  }
};

// Bounds of the steps of an origin add up, each with its optimizer's; the slowest origin counts.
template <typename Rtt, typename Optimizer>
double TripBound(const Workload& workload, Rtt rtt, Optimizer optimizer) {
  std::map<std::pair<int32_t, int32_t>, Trips> trips;  // origin, step
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    trips[{microbatch.slots.front(), microbatch.step}].Add(rtt(microbatch));
  }
  std::map<int32_t, double> of_origin;
  double slowest = 0;
  for (const auto& [key, trip] : trips) {
    double& total = of_origin[key.first];
    total += trip.Bound(workload.in_flight) + optimizer(key.first);
    slowest = std::max(slowest, total);
  }
  return slowest / workload.steps;
}

std::vector<double> SlotFlops(const Workload& workload) {
  std::vector<double> flops(static_cast<size_t>(workload.slots()));
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    for (const int32_t slot : microbatch.slots) {
      flops[static_cast<size_t>(slot)] += VisitFlops(workload, slot);
    }
  }
  return flops;
}

std::vector<double> FlopsWithSteps(const Workload& workload) {
  std::vector<double> flops = SlotFlops(workload);
  std::set<std::pair<int32_t, int32_t>> steps;  // slot, step
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    for (const int32_t slot : microbatch.slots) steps.insert({slot, microbatch.step});
  }
  for (const auto& [slot, step] : steps)
    flops[static_cast<size_t>(slot)] += StepFlops(workload, slot);
  return flops;
}

double AnyComputeBound(const Workload& workload, const Fleet& fleet) {
  std::vector<double> flops = FlopsWithSteps(workload);
  std::vector<double> gflops = fleet.gflops;
  std::sort(flops.begin(), flops.end(), std::greater<>());
  std::sort(gflops.begin(), gflops.end(), std::greater<>());
  double bound = 0;
  for (size_t i = 0; i < flops.size(); ++i) {
    bound = std::max(bound, ComputeSeconds(flops[i], gflops[i]));
  }
  return bound / workload.steps;
}

// No tour can be shorter than its work on the fastest node and as many of the shortest edges.
double AnyTripBound(const Workload& workload, const Fleet& fleet) {
  const double fastest = *std::max_element(fleet.gflops.begin(), fleet.gflops.end());
  double edge = kUnusable;
  for (int32_t i = 0; i < fleet.size(); ++i) {
    for (int32_t j = 0; j < i; ++j) {
      edge = std::min(edge, Travel(fleet, i, j) + Travel(fleet, j, i));
    }
  }
  const auto rtt_of = [&](const Workload::Microbatch& microbatch) {
    double rtt = 0;
    for (const int32_t slot : microbatch.slots) {
      rtt += ComputeSeconds(VisitFlops(workload, slot), fastest);
    }
    const auto edges = static_cast<double>(microbatch.slots.size());
    return microbatch.slots.size() == 1 ? rtt : rtt + edges * edge;
  };
  return TripBound(workload, rtt_of, [&](int32_t slot) {
    return ComputeSeconds(StepFlops(workload, slot), fastest);
  });
}

// What slot `s` adds to Σ RTT on node i at least: its work there, and its messages, the most
// frequent over the shortest ways out of i.
double LeastShare(const std::vector<double>& counts, double flops, const Fleet& fleet, int32_t i,
                  const std::vector<double>& ways) {
  double share = ComputeSeconds(flops, fleet.gflops[static_cast<size_t>(i)]);
  for (size_t k = 0; k < counts.size(); ++k) share += counts[k] * ways[k];
  return share;
}

double GilmoreLawler(const Workload& workload, const Fleet& fleet) {
  const auto slots = static_cast<size_t>(workload.slots());
  const auto nodes = static_cast<size_t>(fleet.size());
  std::vector<std::map<int32_t, double>> sent(slots);  // [slot] to → messages
  for (const Workload::Microbatch& microbatch : workload.microbatches) {
    ForEachMessage(microbatch, [&](int32_t a, int32_t b) { ++sent[static_cast<size_t>(a)][b]; });
  }
  std::vector<std::vector<double>> ways(nodes);  // [node] out of it, shortest first
  for (int32_t i = 0; i < fleet.size(); ++i) {
    for (int32_t j = 0; j < fleet.size(); ++j) {
      if (i != j) ways[static_cast<size_t>(i)].push_back(Travel(fleet, i, j));
    }
    std::sort(ways[static_cast<size_t>(i)].begin(), ways[static_cast<size_t>(i)].end());
  }
  const std::vector<double> flops = SlotFlops(workload);
  std::vector<double> cost(slots * nodes);
  double row_minima = 0;
  for (size_t s = 0; s < slots; ++s) {
    std::vector<double> counts;
    for (const auto& [to, count] : sent[s]) counts.push_back(count);
    std::sort(counts.begin(), counts.end(), std::greater<>());
    for (size_t i = 0; i < nodes; ++i) {
      cost[s * nodes + i] = LeastShare(counts, flops[s], fleet, static_cast<int32_t>(i), ways[i]);
    }
    const auto row = cost.begin() + static_cast<std::ptrdiff_t>(s * nodes);
    row_minima += *std::min_element(row, row + static_cast<std::ptrdiff_t>(nodes));
  }
  if (fleet.size() > kAssignmentNodesMax) return row_minima;
  return LeastAssignment(cost, workload.slots(), fleet.size());
}

}  // namespace

double PlacementBound(const Workload& workload, const Fleet& fleet, const Placement& placement) {
  const auto node = [&](int32_t slot) { return placement[static_cast<size_t>(slot)]; };
  const auto gflops = [&](int32_t slot) { return fleet.gflops[static_cast<size_t>(node(slot))]; };
  const auto rtt_of = [&](const Workload::Microbatch& microbatch) {
    double rtt = 0;
    for (const int32_t slot : microbatch.slots) {
      rtt += ComputeSeconds(VisitFlops(workload, slot), gflops(slot));
    }
    ForEachMessage(microbatch,
                   [&](int32_t a, int32_t b) { rtt += Travel(fleet, node(a), node(b)); });
    return rtt;
  };
  const double trips = TripBound(workload, rtt_of, [&](int32_t slot) {
    return ComputeSeconds(StepFlops(workload, slot), gflops(slot));
  });
  const std::vector<double> flops = FlopsWithSteps(workload);
  double compute = 0;
  for (int32_t slot = 0; slot < workload.slots(); ++slot) {
    const double busy = ComputeSeconds(flops[static_cast<size_t>(slot)], gflops(slot));
    compute = std::max(compute, busy / workload.steps);
  }
  return std::max(trips, compute);
}

double AnyPlacementBound(const Workload& workload, const Fleet& fleet) {
  SKERRY_CHECK(workload.slots() <= fleet.size());
  const auto origins = std::count(workload.stage_of_slot.begin(), workload.stage_of_slot.end(), 0);
  const double under_way = static_cast<double>(origins) * workload.in_flight * workload.steps;
  const double little = GilmoreLawler(workload, fleet) / under_way;
  return std::max({little, AnyComputeBound(workload, fleet), AnyTripBound(workload, fleet)});
}

}  // namespace skerry
