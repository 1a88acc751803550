// What the delta exchanges of a placement take beside its microbatches, for the choice of δ, τ and
// codec: routing/round_cost.h in the share of a sender's time that activations leave, which go
// first, and with what those who share an access line send through it at the same time.
//
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "routing/placement.h"

namespace skerry {

// A delta exchange of one replica, per bit of a value, of the whole stage.
struct Exchange {
  double seconds_per_bit = 0;  // on the lines, beside the activations
  double alone_s_per_bit = 0;  // the same if nobody shared the line
  double latency_s = 0;
  double after_s_per_bit = 0;     // handling, and on to the members of a cohort that hears it
  double boundaries_per_bit = 0;  // what is sent, in boundary payloads
  double uplink_free = 1;
  // Of one message: in streaming that of a fragment, which are about equal.
  double Seconds(double bits, int64_t fragments) const {
    return seconds_per_bit * bits / static_cast<double>(fragments) +
           (latency_s + after_s_per_bit * bits / static_cast<double>(fragments));
  }
  double AloneSeconds(double bits) const {
    return alone_s_per_bit * bits + (latency_s + after_s_per_bit * bits);
  }
  // Of all messages of a span of τ steps, one after the other.
  double LineSeconds(double bits) const { return seconds_per_bit * bits; }
};

// Of every replica that has others to send to. `step_s`: without outer traffic; the problem's
// deltas have so many bits a value.
std::vector<Exchange> ExchangesOf(const PlacementProblem& problem, const Placement& placement,
                                  double step_s, double encoded_bits);

// nullptr: nobody has others.
const Exchange* Slowest(const std::vector<Exchange>& exchanges, double bits, int64_t fragments);

}  // namespace skerry
