// A line of one rate with a drop-tail queue, counted in time: what has to wait longer than the
// queue is long is dropped.
//
//     if free − now > queue: drop
//     free = max(now, free) + bytes / rate
//
// Pure, on virtual time that does not go back. Not thread-safe.
#pragma once

#include <cstdint>

#include "common/instant.h"

namespace skerry {

// A run of segments on its way: the first is complete at `first`, the last at `last`.
struct Passage {
  Instant first, last;
};

class PacketLine {
 public:
  // 0 bytes per second: no limit, nothing waits.
  PacketLine(double bytes_per_s, Duration queue);

  // From now on. What waits keeps its place.
  void SetRate(double bytes_per_s);

  // Sends up to `count` segments, of `segment_bytes` each but the last one of `last_bytes`, that
  // arrive during `passage`. Returns how many found room: as the queue only grows, those are the
  // first ones. `passage` becomes that of their departure.
  int32_t Send(int32_t count, int64_t segment_bytes, int64_t last_bytes, Passage& passage);

  Instant free() const { return free_; }

 private:
  Duration TimeFor(int64_t bytes);

  double nanos_per_byte_ = 0;
  double owed_nanos_ = 0;  // fractions of a nanosecond, so that small packets add up
  Duration queue_;
  Instant free_;
};

}  // namespace skerry
