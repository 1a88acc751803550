// What a sharded round sends over the wire, counted on encoded frames with their headers.
//
// Values are drawn, not trained: per block of 256 a scale over six octaves, a part that all
// replicas share and noise of their own; both ways run some rounds with error feedback before one
// is counted, as what is fed back changes what is sent. TCP/IP headers are not counted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/run_config.h"

namespace skerry::bench {

inline constexpr int64_t kTrafficParameters = 8 << 20;  // of a stage

// Bits per parameter and round of one replica: its delta to the reducers, and the sums to it.
struct RoundTraffic {
  double up = 0, down = 0;
  // What outer.sum_checks adds, at most a piece of each part: what is stated of all sums, and what
  // is said and shown of the drawn ones.
  double checks = 0;
};

// Of a settled configuration.
RoundTraffic CountRoundTraffic(const OuterConfig& outer, size_t replicas, int64_t parameters);

}  // namespace skerry::bench
