// A scenario's network as lines that packets cross, and the addresses of its nodes.
//
// The lines are those of the simulator's flows (sim/flow_map.h), at wire rate instead of payload: a
// site's line up, the path between the regions, the site's line down, or the site's own network.
// What one flow gets at most (flow_bytes_per_s) is a further line for every ordered pair of nodes,
// 1500/1448 as fast, so that a flow delivers what the scenario says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/instant.h"
#include "sim/network_spec.h"

namespace skerry {

inline constexpr uint32_t kPacketNetwork = 0x0a4d0000;  // 10.77.0.0/16, inside namespaces only
inline constexpr int kPacketPrefix = 16;
inline constexpr int32_t kPacketNodesMax = 1024;

// Node n is kPacketNetwork + n + 1.
uint32_t PacketAddress(int32_t node);
std::string PacketAddressText(int32_t node);
// −1 if it is none of `nodes`.
int32_t PacketNode(uint32_t address, int32_t nodes);

struct PacketHop {
  int32_t line = 0;
  Duration delay;  // after the line
  bool lossy = false;
};

// The way from one node to another.
struct PacketRoute {
  std::vector<PacketHop> hops;     // loss strikes where `lossy`, jitter there too
  double loss = 0;                 // of segments
  Duration jitter;                 // median, lognormal
  double slowest_bytes_per_s = 0;  // 0: no line limits
};

struct PacketPlan {
  int32_t nodes = 0;
  std::vector<double> line_bytes_per_s;
  std::vector<PacketRoute> routes;  // [nodes, nodes], row = from; the diagonal is not used
  Duration queue;                   // of every line

  const PacketRoute& Route(int32_t from, int32_t to) const {
    return routes[static_cast<size_t>(from) * static_cast<size_t>(nodes) + static_cast<size_t>(to)];
  }
};

// CHECKs that the spec's indices fit together, as FlowMap does. Changes over time are left out.
PacketPlan MakePacketPlan(const NetworkSpec& spec);

}  // namespace skerry
