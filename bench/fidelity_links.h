// The links that emulation and simulation are compared on, as networks for both.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/flow_network.h"
#include "sim/network_spec.h"

namespace skerry::bench {

struct TestLink {
  double mbps = 100;
  int rtt_ms = 80;
  double loss = 0;
};

inline constexpr double kMbit = 1e6 / 8;

// Every link a world of its own: link i joins node 2i and node 2i + 1, each direction with the
// link's rate, half its round trip and its loss (there only).
NetworkSpec SpecOf(const std::vector<TestLink>& links, CongestionControl control);

// Node 0 behind a line of its own, and `peers` others that it reaches through that line only, each
// over the link's round trip and loss (there only): rates of the others are no limit.
NetworkSpec SharedLineSpec(const TestLink& line, int peers, CongestionControl control);

// Rates {10, 100, 1000} Mbit/s × round trips {20, 80, 200} ms.
std::vector<TestLink> GridOfLinks();

// Seconds from handing over to the one-byte answer, for messages sent one after another over one
// connection 0 → 1 of an idle network, the next when the answer is there; the first finds the
// connection fresh.
std::vector<double> SimulatedSeconds(const NetworkSpec& spec, uint64_t seed,
                                     const std::vector<int64_t>& messages);

// One message of `bytes` over each connection 2i → 2i + 1, all at once: seconds to each answer.
std::vector<double> SimulatedAtOnce(const NetworkSpec& spec, uint64_t seed, int flows,
                                    int64_t bytes);

}  // namespace skerry::bench
