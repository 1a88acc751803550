// How many bulk bytes of a pair may be under way: as many as fill the line, and hardly more.
//
// More would stand in the bottleneck's queue, where control waits behind them; fewer would leave
// the line idle. The queue is measured: probes on a connection of their own cross the same
// bottleneck, and what the quickest of a round of them (of many, the second) takes beyond the
// quickest ever is standing queue. Those that come back together were held up by a lost packet and
// end no round. Where both ends send, the queue of the way back is the other's: echoes tell when a
// probe came, and what the way there takes beyond its quickest is ours (as in LEDBAT, RFC 6817).
// Clocks drift, so it is believed between a quarter of what the round trip says and all of that.
// The window grows or shrinks until that is kTargetQueue (queue_follower.h). It needs no estimate
// of the rate that is good to a few per cent, as pacing by one would, and acknowledgements, which
// come at the rate of the line, space the chunks (pace.h, where they come bunched). It starts small
// and grows by two fifths every round trip, as acknowledgements come, until probes meet a queue, or
// until far more is under way than the rate explains; after a rest more gently, as it may have come
// near the line.
//
// Of a queue that other pairs of the process meet as well only what is beyond it counts: that one
// is looked after together (sender_line.h).
//
// Where TCP itself holds bytes back (a lossy line and cubic, or a full window of one connection)
// the queue stays empty while more is under way than the line can hold. Then more connections help,
// not a larger window: IsHeldByTcp.
//
// Pure; not thread-safe. Times do not go back.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/instant.h"
#include "wire/transport/queue_follower.h"

namespace skerry {

class CongestionWindow {
 public:
  static constexpr int64_t kFirstBytes = 32 << 10;
  static constexpr int64_t kLeastBytes = 16 << 10;
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  static constexpr Duration kTargetQueue = Duration::Millis(3);
  static constexpr Duration kBurstTime = Duration::Millis(4);
  // The least: six full segments of Ethernet, with all that a chunk has around it (97 bytes).
  static constexpr int64_t kChunkLeast = 6 * 1448 - 97, kChunkMost = 64 << 10;
  static constexpr int64_t kBurstMost = 256 << 10;
  static constexpr Duration kForgetRoundTrip = Duration::Seconds(60);

  // A probe came back: how far it is. `way`: how long it took to get there, by two clocks that do
  // not agree.
  void NotePath(Instant now, Duration round_trip, std::optional<Duration> way);
  // And what it met; after NotePath. `in_line`: bytes that were in the line when it left.
  void OnProbe(Instant now, Duration round_trip, std::optional<Duration> way, int64_t in_line);
  // What a probe that took so long met on the way; after NotePath.
  Duration QueueOf(Duration round_trip, std::optional<Duration> way) const;
  // Of that, probes of other pairs meet so much as well. nullopt: not known yet, so that it says
  // nothing, nor does a probe that left before `since`.
  void OnCommonQueue(Instant since, std::optional<Duration> queue) {
    common_since_ = since;
    common_ = queue;
  }
  // Other pairs keep more from being sent: in this round it is not seen what the window lets go.
  void OnHeldBack() { held_back_ = true; }
  // What kept more from being sent since the last acknowledgement; the last of these counts.
  enum class Limit : uint8_t { kNothing, kConnections, kWindow };
  // The receiver had so many bytes all in all at this time of its clock; so many were in the line.
  void OnDelivered(Instant now, int64_t received_bytes, Instant at, Limit limit, int64_t in_line);
  // How long a chunk took from its sending to its acknowledgement.
  void OnChunk(Duration took);
  // Nothing is under way. A round goes on after a short rest.
  void OnIdle(Instant now);

  int64_t bytes() const { return window_; }
  bool is_starting() const { return starting_; }
  // A few milliseconds of the line: what one connection may have to send at a time.
  int64_t BurstBytes() const;
  int64_t ChunkBytes() const;
  double bytes_per_s() const { return rate_; }  // 0: not known yet
  // Shortest of the last minutes; nullopt before the first probe came back.
  std::optional<Duration> round_trip() const { return shortest_; }
  Duration smoothed() const { return smoothed_; }      // of probes; 0 before
  Duration chunk_time() const { return chunk_time_; }  // of OnChunk, smoothed
  bool IsHeldByTcp() const { return held_ && !starting_; }

 private:
  // The least of the last kForgetRoundTrip.
  class Least {
   public:
    Duration Add(Instant now, Duration value);

   private:
    std::deque<std::pair<Instant, Duration>> candidates_;  // increasing in both
  };

  Duration RoundsQueue() const;
  Duration OwnOf(Duration queue) const;
  void Resume(Instant now, int64_t received_bytes, Instant at);
  void EndRound(Instant now);
  void EndStart(Duration queue, int64_t in_line);
  void StartAnew();
  void Follow(Duration queue, double rate);
  Duration Target() const;
  int64_t InUse() const;
  double Holds(double rate) const;

  int64_t window_ = kFirstBytes;
  bool starting_ = true;
  int gentle_rounds_ = 0;
  bool rests_ = false;  // nothing is under way
  std::optional<Instant> idle_since_;
  std::optional<Duration> shortest_, shortest_way_;
  Least round_trips_, ways_;
  Duration smoothed_, chunk_time_;
  Instant common_since_;
  std::optional<Duration> common_ = Duration();

  // The round under way.
  std::optional<Instant> round_began_;
  Quickest round_trips_now_, ways_now_;
  int round_probes_ = 0;
  std::optional<Instant> probed_at_;  // the last probe came back,
  Instant probe_sent_;                // had left then,
  bool held_up_ = false;              // and came together with others
  Limit limit_ = Limit::kNothing;
  bool held_back_ = false;
  int64_t most_in_line_ = 0, most_before_ = 0;  // in this round, and in that before
  int64_t first_bytes_ = -1, last_bytes_ = -1;
  Instant first_at_, last_at_;

  double rate_ = 0;
  QueueFollower follower_;
  int stuck_rounds_ = 0;  // with more under way than the rate explains, one after another
  std::optional<Instant> queued_since_;  // all probes have met a queue
  bool held_ = false;
};

}  // namespace skerry
