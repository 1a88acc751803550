// What `./dev bench transport` measures of one pair of processes over one shaped link.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/fidelity_links.h"
#include "bench/transport_end.h"
#include "sim/packet/packet_world.h"

namespace skerry::bench {

struct PairRun {
  double payload_bytes_per_s = 0;  // of deltas, from the first byte sent to the end of the load
  std::vector<double> idle_pings, pings, idle_activations, activations;  // seconds
  double sender_processor_s = 0;
  double slowest_handler_s = 0;
  int64_t unanswered = 0;
};

// Messages and how many of them are under way, so that the line never runs dry.
EndOptions LoadFor(const TestLink& link, double seconds);

// Two processes on nodes 2·index and 2·index + 1 of `world`.
PairRun RunPair(const PacketWorld& world, int index, EndOptions options);

}  // namespace skerry::bench
