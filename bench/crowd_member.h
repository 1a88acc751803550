// Thousands of nodes in one process, as far as a coordinator can tell: each has an identity, an
// encrypted connection and a courier of its own, joins with a ticket and says a heartbeat every
// second. Nobody trains.
#pragma once

#include <cstdint>
#include <string>

namespace skerry::bench {

struct CrowdOptions {
  int32_t first = 0;  // number of the first node; identities are made of numbers
  int32_t count = 1;
  std::string ticket;
};

// Prints "joined COUNT SECONDS" on the monotonic clock when the last is in, then "beats COUNT
// SECONDS" every second, for as long as the process lives.
[[noreturn]] void BeCrowd(const CrowdOptions& options);

}  // namespace skerry::bench
