// A network as scenario files describe it and the simulator's model carries it: regions joined by
// directed paths, and sites, each the access line of one or more nodes.
//
// A byte from node a to node b crosses a's site up, the path of the two regions, b's site down.
// Nodes of one site have a switch: between two of them a byte crosses only their ports, and what
// leaves or comes crosses the port, too. A node alone at its site has none. Or they share the air:
// what stays has the local rate in all, and what leaves does not cross it. Rates are bytes per
// second, 0 means no limit; Mbit/s in files are 10^6 bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/instant.h"

namespace skerry {

// One direction between two regions (or within one region, from it to itself).
struct PathSpec {
  Duration one_way;
  double bytes_per_s = 0;       // capacity, shared by all flows of this direction
  double flow_bytes_per_s = 0;  // most that one TCP flow gets; 0: only its window limits it
  double loss = 0;              // of packets, in [0, 1)
  Duration jitter;              // median of the extra delay of a packet, lognormal; 0: none
  bool operator==(const PathSpec&) const = default;
};

// An access line. Nodes of one site share both directions of it.
struct SiteSpec {
  std::string name;
  int32_t region = 0;  // index into NetworkSpec::regions
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
  Duration access_one_way;           // added once for the sender's and once for the receiver's line
  double local_bytes_per_s = 125e6;  // of each node's port there, both ways at once
  Duration local_one_way = Duration::Micros(250);
  bool local_is_shared = false;  // as by radio
  bool operator==(const SiteSpec&) const = default;
};

// From `at` on, the path has these properties.
struct PathChange {
  Instant at;
  int32_t from = 0, to = 0;  // regions
  PathSpec path;
  bool operator==(const PathChange&) const = default;
};

// From `at` on, the site has these rates.
struct SiteChange {
  Instant at;
  int32_t site = 0;
  double up_bytes_per_s = 0;
  double down_bytes_per_s = 0;
  bool operator==(const SiteChange&) const = default;
};

// What the kernel's TCP does; it decides slow start, restart after idle and the answer to loss.
enum class CongestionControl : uint8_t { kCubic, kBbr };

struct NetworkSpec {
  std::vector<std::string> regions;
  std::vector<PathSpec> paths;  // [regions, regions], row = from
  std::vector<SiteSpec> sites;
  std::vector<int32_t> site_of_node;  // by node number; the coordinator is node 0
  // Nodes behind routers that let nothing in: two of them reach each other over one of `relays`
  // (each pair over its own), over node 0 if there are none. Both ascending.
  std::vector<int32_t> behind_routers;
  std::vector<int32_t> relays;
  std::vector<PathChange> path_changes;  // by time
  std::vector<SiteChange> site_changes;  // by time
  CongestionControl congestion_control = CongestionControl::kBbr;
  double window_bytes_max = 3.5e6;         // one flow carries at most this per round trip
  Duration queue = Duration::Millis(100);  // of a bottleneck before it drops
  bool operator==(const NetworkSpec&) const = default;
};

inline std::vector<int32_t> NodesAtSites(const NetworkSpec& network) {
  std::vector<int32_t> nodes(network.sites.size());
  for (const int32_t site : network.site_of_node) ++nodes[static_cast<size_t>(site)];
  return nodes;
}

}  // namespace skerry
