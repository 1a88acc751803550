// What a line carries at its best, by what its far end says has come: bytes between two of the
// readings of its clock. Waiting on this side, acknowledgements on their way back and round trips
// are not in it.
//
// A window that does not fill the line passes it in bursts, one a round trip, which go as fast as
// the line does; so what counts is the fastest stretch of kStretch and kStretchBytes, not the mean.
// A reading is taken where the receiver finds time: one that comes late makes what follows look
// fast. Hence the slower of two stretches, one behind the other.
//
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "common/instant.h"

namespace skerry {

class CarriedRate {
 public:
  static constexpr Duration kStretch = Duration::Millis(10);
  static constexpr int64_t kStretchBytes = 256 << 10;
  static constexpr Duration kForget = Duration::Seconds(60);

  // The receiver had so many bytes all in all at this time of its clock. What goes back is passed
  // over.
  void OnDelivered(int64_t received_bytes, Instant at);
  // Nothing is under way: what comes next is other traffic.
  void OnIdle() { readings_.clear(); }

  // bytes/s, of the last minute; 0: not known. Of what is older only as long as nothing is newer.
  double best() const { return bests_.empty() ? 0 : bests_.front().second; }

 private:
  struct Reading {
    Instant at;
    int64_t bytes = 0;
    double rate = 0;  // of the stretch that ends here; 0: none does
  };
  void Believe(Instant at, double rate);

  std::deque<Reading> readings_;                  // of one run of traffic, a stretch of them
  std::deque<std::pair<Instant, double>> bests_;  // later ones are smaller
};

}  // namespace skerry
