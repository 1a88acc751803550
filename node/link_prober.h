// Measures the way from this node to another, when the coordinator asks: a few empty pings one
// after another (the median is the round trip), then some with padding (what the fastest takes
// beyond a round trip is transfer). The first of those pays for TCP's slow start: alone it would
// read a line of 200 Mbit/s and 93 ms as one of 6. The window that it opens lets the next pass
// faster, and so on until one does not. Where the first takes many round trips, the line is slow
// and not the start.
//
// A part of the node's actor. One probe at a time; a second request replaces an unfinished one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/actor.h"

namespace skerry {

class LinkProber {
 public:
  static constexpr int kEmptyPings = 3;
  static constexpr int kPaddedPingsMax = 4;
  static constexpr int64_t kManyRoundTrips = 32;
  static constexpr int64_t kPaddingBytesMax = 1 << 20;

  void OnRequest(Context& context, const ProbeRequest& request);
  // The reading, once complete.
  std::optional<LinkReading> OnPong(Context& context, const NodeId& from, const Pong& pong);

 private:
  void SendPing(Context& context);
  Duration RoundTrip() const;
  bool IsSettled() const;  // another padded ping would be no faster

  std::optional<ProbeRequest> request_;
  uint64_t nonce_ = 0;
  Instant sent_;
  std::vector<Duration> empty_, padded_;  // how long each took
};

}  // namespace skerry
