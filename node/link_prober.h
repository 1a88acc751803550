// Measures the way from this node to another, when the coordinator asks: a few empty pings one
// after another (the median is the round trip), then one with padding (the rest of its time is
// transfer).
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
  static constexpr int64_t kPaddingBytesMax = 1 << 20;

  void OnRequest(Context& context, const ProbeRequest& request);
  // The reading, once complete.
  std::optional<LinkReading> OnPong(Context& context, const NodeId& from, const Pong& pong);

 private:
  void SendPing(Context& context, int64_t padding);

  std::optional<ProbeRequest> request_;
  uint64_t nonce_ = 0;
  Instant sent_;
  std::vector<Duration> round_trips_;
};

}  // namespace skerry
