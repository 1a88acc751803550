#include "pipeline/plan/contestants.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "common/rng.h"
#include "common/status.h"
#include "pipeline/plan/node_memory.h"
#include "pipeline/plan/round_bytes.h"
#include "pipeline/plan/workload.h"
#include "routing/canonical_order.h"
#include "routing/cost_model.h"
#include "routing/node_lines.h"

namespace skerry {
namespace {

uint64_t HashOf(double a, double b) {
  return Mix64(Mix64(std::bit_cast<uint64_t>(a)) ^ std::bit_cast<uint64_t>(b));
}

Fleet FleetOf(const PlannerInput& input, const Contestants& contestants) {
  const size_t n = contestants.nodes.size();
  const auto payload = static_cast<double>(BoundaryBytes(input.config));
  Fleet fleet;
  fleet.gflops = contestants.gflops;
  fleet.latency_s.resize(n * n);
  fleet.wire_s.resize(n * n);
  fleet.handling_s = HandlingSeconds(input.config, input.message_s);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const LinkEstimate& link =
          input.links.At(contestants.link_index[i], contestants.link_index[j]);
      const double never = std::numeric_limits<double>::infinity();
      fleet.latency_s[i * n + j] = link.usable() ? link.rtt_s / 2 : never;
      fleet.wire_s[i * n + j] = link.usable() ? payload / link.bytes_per_s : never;
    }
  }
  SetLines(input.links, contestants.link_index, payload, &fleet);
  return fleet;
}

bool AreNear(const PlannerInput& input, int32_t a, int32_t b) {
  const auto nodes = static_cast<size_t>(input.links.size());
  return !input.near.empty() &&
         input.near[static_cast<size_t>(a) * nodes + static_cast<size_t>(b)] != 0;
}

NearNodes NearOf(const PlannerInput& input, const Contestants& contestants,
                 const Partition& partition) {
  NearNodes near;
  if (input.near.empty()) return near;
  near.overlap = input.config.cluster.overlap_steps > 0;
  for (const int32_t a : contestants.link_index) {
    for (const int32_t b : contestants.link_index) near.pairs.push_back(AreNear(input, a, b));
  }
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    const int32_t layers = partition.stages[stage].layers();
    near.gradient_boundaries.push_back(GradientBytes(input.config, layers, stage == 0) /
                                       static_cast<double>(BoundaryBytes(input.config)));
    near.parts.push_back(SumPartsOf(input.config, layers, stage == 0));
  }
  return near;
}

}  // namespace

Contestants Canonical(const PlannerInput& input) {
  const size_t n = input.nodes.size();
  const std::vector<double> speeds = SpeedsOf(input.nodes, input.devices);
  std::vector<uint64_t> features;
  std::vector<uint64_t> pairs(n * n);
  for (size_t i = 0; i < n; ++i) {
    const DeviceProfile& device = input.devices.at(input.nodes[i]);
    const double memory = static_cast<double>(device.memory_bytes) * AnnouncedDevices(device);
    features.push_back(HashOf(speeds[i], memory));
    const DeviceSplit split = AnnouncedSplit(device);
    if (split == DeviceSplit::kTensors) features.back() = Mix64(features.back());
    if (split == DeviceSplit::kEither) features.back() = Mix64(features.back() + 1);
    if (device.host_bytes > 0) {
      features.back() = HashOf(std::bit_cast<double>(features.back()), double(device.host_bytes));
    }
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const int32_t from = input.links.IndexOf(input.nodes[i]);
      const int32_t to = input.links.IndexOf(input.nodes[j]);
      const LinkEstimate& link = input.links.At(from, to);
      uint64_t& pair = pairs[i * n + j];
      pair = link.usable() ? HashOf(link.rtt_s, link.bytes_per_s) : 0;
      if (AreNear(input, from, to)) pair = Mix64(pair);
      const int32_t line = input.links.LineOf(from);
      if (line >= 0 && line == input.links.LineOf(to)) pair = Mix64(pair + 1);
    }
  }
  Contestants contestants;
  for (const int32_t index : CanonicalOrder(features, pairs)) {
    const NodeId& node = input.nodes[static_cast<size_t>(index)];
    contestants.nodes.push_back(node);
    contestants.link_index.push_back(input.links.IndexOf(node));
    contestants.gflops.push_back(speeds[static_cast<size_t>(index)]);
    contestants.offers.push_back(OfferOf(input.devices.at(node)));
  }
  return contestants;
}

void Charge(const RunConfig& config, const Partition& partition, PlacementProblem* problem) {
  problem->outer = {};
  problem->outer.inner_steps = std::max<int64_t>(1, config.outer.inner_steps);
  problem->outer.overlap_steps = HidingSteps(config.outer);
  problem->outer.fragments = FragmentsOf(config.outer);
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    ChargeRounds(config, partition.stages[stage].layers(), stage == 0, &problem->outer);
  }
}

PlacementProblem ProblemOf(const PlannerInput& input, const Contestants& contestants,
                           const Partition& partition, const std::vector<Path>& paths,
                           int32_t steps_max) {
  const RunConfig& config = input.config;
  PlacementProblem problem;
  problem.workload = WorkloadOf(config, partition, paths, steps_max);
  problem.fleet = FleetOf(input, contestants);
  problem.lines = std::make_shared<const NodeLines>(LinesOf(problem.fleet));
  Charge(config, partition, &problem);
  problem.near = NearOf(input, contestants, partition);
  PutOff(config, partition, contestants.offers, &problem.fleet);
  problem.fits = FitsOf(config, partition, contestants.offers);
  return problem;
}

absl::Status Disconnected(const PlacementProblem& problem, const Contestants& contestants) {
  const int32_t n = problem.fleet.size();
  int32_t unusable = 0;
  std::string first;
  std::vector<int32_t> of_node(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t j = 0; j < n; ++j) {
      if (i == j || std::isfinite(problem.fleet.latency_s[problem.fleet.Pair(i, j)])) continue;
      ++of_node[static_cast<size_t>(i)];
      ++of_node[static_cast<size_t>(j)];
      if (unusable++ > 0) continue;
      first = contestants.nodes[static_cast<size_t>(i)].Short() + " -> " +
              contestants.nodes[static_cast<size_t>(j)].Short();
    }
  }
  const auto worst = std::max_element(of_node.begin(), of_node.end()) - of_node.begin();
  return FailedPrecondition(
      "the nodes cannot all reach each other: %d of %d links do not work (first: %s, most: %d of "
      "%d at %s), and no placement avoids them. Open the nodes' ports, or start without the "
      "unreachable ones.",
      unusable, n * (n - 1), first, of_node[static_cast<size_t>(worst)], 2 * (n - 1),
      contestants.nodes[static_cast<size_t>(worst)].Short());
}

}  // namespace skerry
