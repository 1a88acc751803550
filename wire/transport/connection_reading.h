// What the kernel says of a TCP connection that somebody else owns, and is asked for.
#pragma once

#include <cstdint>
#include <optional>

namespace skerry {

struct ConnectionReading {
  // Bytes in the line: sent, and neither acknowledged (selectively, too) nor known to be lost.
  int64_t in_flight = 0;
  int64_t unsent = 0;  // that wait for the kernel to send them
  int64_t window = 0;  // as many as it lets be in the line
};

// nullopt if it is no TCP connection.
std::optional<ConnectionReading> ReadConnection(int descriptor);

// For a connection that carries little, none of which may wait: BBR, where the system uses it, lets
// no more than four packets be under way for a while every ten seconds (PROBE_RTT).
void AvoidPauses(int descriptor);

}  // namespace skerry
