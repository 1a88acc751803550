// How soon bulk may follow on bulk: what a window lets go is spread over a round trip.
//
// Acknowledgements that waited behind bulk of the other direction come bunched ("ACK compression":
// Zhang, Shenker and Clark, SIGCOMM 1991). What they let go at once would stand in front of a line
// that was idle before. The pace is faster than the line, so that it is the window that bounds.
//
// Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace skerry {

class Pace {
 public:
  // Of `most_bytes` that may be under way in a round trip. A timer that comes late is made up for.
  void OnSent(Instant now, int64_t bytes, int64_t most_bytes, Duration round_trip) {
    constexpr double kOfWindow = 1.5;  // in a round trip
    constexpr Duration kMadeUpFor = Duration::Millis(2);
    const double share = static_cast<double>(bytes) / static_cast<double>(most_bytes) / kOfWindow;
    until_ = std::max(until_, now - kMadeUpFor) + Duration::Seconds(share * round_trip.seconds());
  }
  Instant until() const { return until_; }

 private:
  Instant until_;
};

}  // namespace skerry
