// Measures the way from this node to another, when the coordinator asks: a few empty pings one
// after another (the median is the round trip), then some with padding (what one takes beyond a
// round trip is transfer; the fastest gives the rate). The first of those pays for TCP's slow
// start: alone it would read a line of 200 Mbit/s and 93 ms as one of 6. The window that it opens
// lets the next pass faster, and so on until one is not. Where the first takes many round trips,
// the line is slow and not the start.
//
// In a small fleet more may be asked for: then each is larger than the one before. A rate
// that still grew at the end was TCP's window's and not the line's. What a long transfer would get
// lies between it and the stock window per round trip: some more growth is believed.
//
// Where the host says what the bulk of these pings has shown (how fast bursts came at the other
// end, the shortest round trip), the better of the two counts.
//
// A part of the node's actor. One probe at a time; a second request replaces an unfinished one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "wire/actor.h"

namespace skerry {

class LinkProber {
 public:
  static constexpr int kEmptyPings = 3;
  static constexpr int kPaddedPingsMax = 4;
  static constexpr int64_t kManyRoundTrips = 32, kOpeningRoundTrips = 16;
  static constexpr int64_t kFirstPaddingBytes = 256 << 10;
  static constexpr int64_t kPaddingBytesMax = 4 << 20;
  static constexpr int64_t kPaddingGrowth = 4;
  static constexpr Duration kLongest = Duration::Seconds(1);
  // What one flow of stock Linux carries per round trip.
  static constexpr double kStockWindowBytes = 3.5e6;
  static constexpr double kBelievedGrowth = 1.4;

  // How pings leave, for an owner that counts them; empty: by the context.
  using Send = std::function<void(Context& context, const NodeId& to, Message message)>;
  explicit LinkProber(Send send = {}) : send_(std::move(send)) {}

  void OnRequest(Context& context, const ProbeRequest& request);
  // The reading, once complete. `shown`: of the way to `from`, by its host.
  std::optional<LinkReading> OnPong(Context& context, const NodeId& from, const Pong& pong,
                                    const std::optional<LinkReading>& shown = {});
  // What the run's own traffic shows now of the way to somebody, where that is faster by a good
  // part than what was read: it may be a share of the line, so slower says nothing.
  std::optional<LinkReading> News(const std::optional<LinkReading>& shown);

 private:
  void SendPing(Context& context);
  Duration RoundTrip() const;
  double Rate(Duration took, int64_t bytes) const;
  int64_t NextPadding() const;
  bool Grew() const;       // the last padded ping was faster than the one before
  bool IsSettled() const;  // another would not be
  LinkReading Reading() const;

  Send send_;
  std::optional<ProbeRequest> request_;
  uint64_t nonce_ = 0;
  int64_t padding_ = 0;  // of the ping under way
  Instant sent_;
  std::vector<Duration> empty_;         // how long each took
  std::vector<double> rates_;           // of the padded ones, bytes/s
  bool looks_ = false;                  // the host
  std::map<NodeId, LinkReading> read_;  // last, of each target
};

}  // namespace skerry
