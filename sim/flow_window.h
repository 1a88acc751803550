// The congestion window of one TCP connection, in rounds of one round trip.
//
// A connection may send one window per round. While it fills its window the window grows: slow
// start doubles it, after a loss by the cubic function or Reno's line, whichever is more (RFC 8312,
// C = 0.4, beta = 0.7). Losses are drawn packet by packet as the distance to the next lost one, so
// one run of cubic differs from the next as much as real ones do.
//
// bbr paces: while it searches for the path's rate at 2.89 times what it has seen, afterwards at
// that rate; its first window, paced too, makes the first round longer. cubic does not pace: a
// window that finds the pipe empty leaves at once.
//
// bbr does not answer loss with its rate, but for the first round of a recovery it sends no more
// than arrives: in its start-up that is a round without growth. What else it feels is its send
// buffer: a lost packet holds the buffer for one round more, a lost repetition for another 1.25;
// once the buffer limits the flow, such a round is that much longer. (1 Gbit/s, 80 ms, 3.5 MB: 186
// Mbit/s at 0.1 % loss and 144 at 1 %, measured on Linux TCP through a packet shaper; the rule
// gives 183 and 155.)
//
// Bytes are payload. Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/instant.h"
#include "common/rng.h"
#include "sim/network_spec.h"

namespace skerry {

inline constexpr double kSegmentBytes = 1448;
inline constexpr double kPayloadShare = 1448.0 / 1500.0;  // of a line's rate
inline constexpr double kInitialWindowBytes = 10 * kSegmentBytes;

class FlowWindow {
 public:
  FlowWindow(CongestionControl control, double bytes_max);

  double bytes() const { return bytes_; }
  bool MayGrow() const { return bytes_ < bytes_max_; }

  // Rounds must be counted although neither the window can grow nor the line is free: a loss would
  // be felt.
  bool FeelsLoss(double loss) const;

  // How much longer than one round trip the coming round is: bbr's first, or drawn where packets
  // are lost; otherwise 1.
  double Stretch(double loss, Rng& rng) const;

  // A round of `rtt` ended in which `sent` bytes left. The window grows only as far as it was used.
  // Returns true if a loss shrank it.
  bool OnRound(Duration rtt, double sent, double loss, Rng& rng);

  // At most so many times a window per round trip leave the sender; 0: no limit.
  double PacingGain() const;

  // Of a window that finds the pipe empty, what arrives at the line faster than it can carry: the
  // share that has to wait there.
  double BurstShare() const;

  // So many rounds were limited by the line, or by the largest window.
  void OnFullRounds(double rounds) { full_rounds_ = std::min(full_rounds_ + rounds, 1e9); }

  // Of a line that several connections fill, each gets a share in proportion to this. cubic ones
  // are unequal: 2 to 16 at once end 4 to 10 % earlier on average than all together, which is what
  // a lognormal spread of 0.2 gives.
  static constexpr int64_t kEvenWeight = 128;
  int64_t DrawWeight(Rng& rng) const;

  // A burst was too much for the line's queue.
  void OnBurstLost();

  // The line gave `bytes` per round trip, queue included, for `at_line`: the window is no larger
  // than that and no smaller than `used`.
  void Settle(double used, double bytes, Duration at_line);

  // The line and its queue hold `bytes`. True: cubic's slow start, of which `sent` left in this
  // round, has got there; it lost packets and shrank.
  bool MayOvershoot(double bytes) const;
  bool Overshoots(double sent, double bytes);

  // While the oldest of `in_flight` bytes is missing, the sender's buffer has room for so many
  // more.
  double LeftInBuffer(double in_flight) const;

  // Nothing was sent for `idle`: cubic halves its window for every retransmission timeout (RFC
  // 2861), bbr keeps its rate.
  void OnIdle(Duration idle, Duration timeout);

  // A retransmission timeout, or a connection anew.
  void Restart();

 private:
  static constexpr double kFullRoundsToKnow =
      4;  // bbr's start-up ends when three bring no more than one

  void OnLoss();
  bool EntersRecovery(double sent, double loss, Rng& rng);
  bool KnowsRate() const { return full_rounds_ >= kFullRoundsToKnow; }
  bool IsFresh() const;
  void Grow(double rtt_s, double sent);
  void Saw(double bytes, double seconds);
  double CubicTarget(double elapsed_s) const;

  CongestionControl control_;
  double bytes_max_;
  double bytes_ = kInitialWindowBytes;
  double full_rounds_ = 0;           // that brought no more than those before
  double slow_start_until_ = 1e300;  // ssthresh
  // Since the last loss, in segments and seconds.
  double largest_ = 0, at_loss_ = 0, return_s_ = 0, elapsed_s_ = 0;
  double segments_to_loss_ = -1;  // < 0: not drawn
  double loss_drawn_for_ = 0;
  bool recovers_ = false;  // bbr: its last round of growth lost something
};

// How many segments pass until one is lost, at least 1.
double DrawSegmentsToLoss(double loss, Rng& rng);

}  // namespace skerry
