// Random delays of messages: jitter, and what lost packets cost the one message they belong to.
#pragma once

#include <cstdint>

#include "common/instant.h"
#include "common/rng.h"

namespace skerry {

// Lognormal with the given median; one draw. Its 90th percentile is 2.8 times the median
// (sigma 0.8). Values come from 1024 equally likely quantiles: cheap, and bounded above by 14
// medians.
Duration DrawJitter(Duration median, Rng& rng);

// What the loss of packets, each lost with probability `loss`, adds to a message of `segments`
// packets, as Linux repairs it: a loss with packets behind it costs a round trip and a quarter, the
// last packet of several two (tail loss probe), a lone packet a retransmission timeout of a round
// trip and 200 ms, doubled each time it is lost again.
Duration DrawLossDelay(double segments, double loss, Duration round_trip, Rng& rng);

// The retransmission timeout of a connection that is not shaken: Linux's least.
inline Duration RetransmissionTimeout(Duration round_trip) {
  return round_trip + Duration::Millis(200);
}

}  // namespace skerry
