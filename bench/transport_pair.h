// What `./dev bench transport` measures between real processes over shaped links.
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

// A sender and its receivers, each a process on its node of `world`; `payload_bytes_per_s` is of
// all that is sent.
PairRun RunEnds(const PacketWorld& world, int32_t sender, const std::vector<int32_t>& receivers,
                EndOptions options);

// Two of them, on nodes 2·index and 2·index + 1.
PairRun RunPair(const PacketWorld& world, int index, EndOptions options);

}  // namespace skerry::bench
