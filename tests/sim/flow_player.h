// A simulated network played alone, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/flow_network.h"

namespace skerry::testing {

inline constexpr double kMbit = 1e6 / 8;

inline Instant At(double seconds) {
  return Instant() + Duration::Seconds(seconds);
}

inline double Seconds(Instant instant) {
  return (instant - Instant()).seconds();
}

// Two regions `rtt` apart, a site in each of `mbps` up and down, `nodes` nodes in each: node 2i at
// the first, 2i + 1 at the second.
inline NetworkSpec TwoSites(double mbps, Duration rtt, CongestionControl control, int nodes = 1) {
  NetworkSpec spec;
  spec.regions = {"west", "east"};
  PathSpec path;
  path.one_way = rtt / 2;
  spec.paths.assign(4, path);
  for (int site = 0; site < 2; ++site) {
    SiteSpec line;
    line.region = site;
    line.up_bytes_per_s = line.down_bytes_per_s = mbps * kMbit;
    spec.sites.push_back(line);
  }
  for (int i = 0; i < 2 * nodes; ++i) spec.site_of_node.push_back(i % 2);
  spec.congestion_control = control;
  return spec;
}

// Plays a network alone: when each tag arrived, in seconds.
class Player {
 public:
  explicit Player(const NetworkSpec& spec, uint64_t seed = 1) : network(spec, seed) {}

  void RunUntil(Instant end) {
    while (const auto due = network.NextDue()) {
      if (*due > end) break;
      std::vector<FlowNetwork::Arrival> arrived;
      network.Advance(*due, arrived);
      for (const auto& arrival : arrived) {
        if (arrival.lost) {
          lost.push_back(arrival.tag);
        } else {
          seconds[arrival.tag] = Seconds(*due);
          order.push_back(arrival.tag);
        }
      }
    }
    std::vector<FlowNetwork::Arrival> none;
    network.Advance(end, none);
    REQUIRE(none.empty());
  }

  FlowNetwork network;
  std::map<uint64_t, double> seconds;
  std::vector<uint64_t> order, lost;
};

// Bulk in messages of 64 KB over `flows` pairs at once for `seconds`; what arrived.
inline double GoodputMbps(const NetworkSpec& spec, int flows, double seconds, uint64_t seed) {
  Player player(spec, seed);
  constexpr int64_t kChunk = 64 * 1024;
  for (int i = 0; i < flows; ++i) {
    for (int chunk = 0; chunk < 20'000; ++chunk)
      player.network.Send(Instant(), 2 * i, 2 * i + 1, kChunk, static_cast<uint64_t>(chunk));
  }
  player.RunUntil(At(seconds));
  return static_cast<double>(player.order.size()) * kChunk / seconds / kMbit;
}

}  // namespace skerry::testing
