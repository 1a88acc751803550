// `skerry-node ring`: tries the ring that sums gradients inside a cluster (node/ring_trial.h).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace skerry {

struct RingOptions {
  std::string ticket;  // of the host's; empty: this is the host
  int members = 2;     // of the host's: with itself
  std::string listen = "tcp://*:*";
  std::string advertise;  // the address that the ticket names; empty: the first of this machine
  double mib = 32;        // of values in each operation
  int times = 5;          // each operation is timed
  std::string operation = "all-reduce";  // or another, or "all"
  bool json = false;
};

// The host prints the ticket, then figures. Ends with an error when the ring is wrong, or when
// nobody is left of it.
absl::Status TryRing(const RingOptions& options);

}  // namespace skerry
