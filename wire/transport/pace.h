// How soon bulk may follow on bulk: what a window lets go is spread over a round trip.
//
// Acknowledgements that waited behind bulk of the other direction come bunched ("ACK compression":
// Zhang, Shenker and Clark, SIGCOMM 1991). What they let go at once would stand in front of a line
// that was idle before. The pace is faster than the line, so that it is the window that bounds; but
// where a line is filled again, of which nothing comes back yet, it is the line's.
//
// Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace skerry {

class Pace {
 public:
  // Of `most_bytes` that may leave in a round trip. A timer that comes late is made up for.
  void OnSent(Instant now, int64_t bytes, double most_bytes, Duration round_trip) {
    constexpr Duration kMadeUpFor = Duration::Millis(2);
    const double share = static_cast<double>(bytes) / most_bytes;
    until_ = std::max(until_, now - kMadeUpFor) + Duration::Seconds(share * round_trip.seconds());
  }
  Instant until() const { return until_; }

 private:
  Instant until_;
};

}  // namespace skerry
