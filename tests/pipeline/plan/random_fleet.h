// Fleets drawn from a seed, for properties of the planner.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "pipeline/plan/planner.h"

namespace skerry {

struct DrawnNode {
  double gflops = 40;
  double x = 0, y = 0;  // on a map on which 1 is 100 ms
  double uplink_bytes_per_s = 25e6;
  double downlink_bytes_per_s = 100e6;
  int64_t memory_bytes = int64_t{4} << 30;
};

inline DrawnNode DrawNode(Rng& rng) {
  constexpr double kSpeeds[] = {20, 40, 40, 80};
  DrawnNode node;
  node.gflops = kSpeeds[rng.Below(4)];
  node.x = std::floor(3 * rng.Uniform()) / 3 + 0.02 * rng.Uniform();  // three towns on a side
  node.y = std::floor(3 * rng.Uniform()) / 3 + 0.02 * rng.Uniform();
  node.uplink_bytes_per_s = 6e6 * std::pow(10, rng.Uniform());
  return node;
}

inline std::vector<DrawnNode> DrawNodes(size_t count, uint64_t seed) {
  Rng rng(seed, "drawn fleet");
  std::vector<DrawnNode> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(DrawNode(rng));
  return nodes;
}

// Node i is called names[i].
inline PlannerInput InputOf(const std::vector<DrawnNode>& nodes,
                            const std::vector<uint32_t>& names) {
  PlannerInput input;
  input.config.model.layers = 12;
  for (size_t i = 0; i < nodes.size(); ++i) {
    input.nodes.push_back(TestNodeId(names[i]));
    input.devices[TestNodeId(names[i])] = {"", "", nodes[i].gflops, nodes[i].memory_bytes};
  }
  std::sort(input.nodes.begin(), input.nodes.end());
  input.links = LinkMatrix(input.nodes);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t j = 0; j < nodes.size(); ++j) {
      if (i == j) continue;
      const double way = std::hypot(nodes[i].x - nodes[j].x, nodes[i].y - nodes[j].y);
      input.links.Set(TestNodeId(names[i]), TestNodeId(names[j]), 0.001 + 0.1 * way,
                      std::min(nodes[i].uplink_bytes_per_s, nodes[j].downlink_bytes_per_s));
    }
  }
  return input;
}

inline PlannerInput InputOf(const std::vector<DrawnNode>& nodes) {
  std::vector<uint32_t> names;
  for (size_t i = 0; i < nodes.size(); ++i) names.push_back(static_cast<uint32_t>(i) + 1);
  return InputOf(nodes, names);
}

}  // namespace skerry
