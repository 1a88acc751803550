#include "wire/transport/window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace skerry {
namespace {

constexpr Duration kRoundLeast = QueueFollower::kRoundLeast;
constexpr int kBunched = 4;  // closer than a fourth of how they were sent
constexpr Duration kQueuedFor = Duration::Millis(10);
constexpr double kStartGrowth = 0.4;  // of what was delivered
// In the midst of growth the line holds more than what a round trip has put into it.
constexpr double kStillGrows = 1.1;
constexpr double kGentleGrowth = 0.25;
constexpr int kGentleRounds = 2;
constexpr Duration kRested = Duration::Seconds(1);
constexpr int kStuckRounds = 4;  // without a rate that explains the window, and the start is over
constexpr double kHeldShare = 1.5;  // more than the line holds, and TCP holds bytes back
constexpr double kHeldMost = 3;     // more would only fill TCP's buffers
constexpr double kHeldAtStart = 5;  // the rate lags behind the window then

Duration Smooth(Duration old, Duration value, int64_t share) {
  return old == Duration() ? value : old + Duration::Nanos((value - old).nanos() / share);
}

}  // namespace

Duration CongestionWindow::Least::Add(Instant now, Duration value) {
  while (!candidates_.empty() && candidates_.back().second >= value) candidates_.pop_back();
  candidates_.emplace_back(now, value);
  while (now - candidates_.front().first > kForgetRoundTrip) candidates_.pop_front();
  return candidates_.front().second;
}

Duration CongestionWindow::QueueOf(Duration round_trip, std::optional<Duration> way) const {
  const Duration both = round_trip - *shortest_;
  return way ? std::clamp(*way - *shortest_way_, both / 4, both) : both;
}

Duration CongestionWindow::RoundsQueue() const {
  // A round may be older than what the shortest is remembered for.
  const Duration both = std::max(round_trips_now_.Usual(round_probes_) - *shortest_, Duration());
  if (ways_now_.is_empty()) return both;
  const Duration least = std::min(round_trips_now_.least() - *shortest_, both);
  return std::clamp(ways_now_.Usual(round_probes_) - *shortest_way_, least / 4, both);
}

Duration CongestionWindow::OwnOf(Duration queue) const {
  return std::max(queue - common_.value_or(Duration()), Duration());
}

void CongestionWindow::NotePath(Instant now, Duration round_trip, std::optional<Duration> way) {
  shortest_ = round_trips_.Add(now, round_trip);
  const Instant sent = now - round_trip;
  held_up_ = probed_at_ && now - *probed_at_ < (sent - probe_sent_) / kBunched;
  probed_at_ = now;
  probe_sent_ = sent;
  if (!held_up_) smoothed_ = Smooth(smoothed_, round_trip, 8);
  if (way) shortest_way_ = ways_.Add(now, *way);
}

void CongestionWindow::OnProbe(Instant now, Duration round_trip, std::optional<Duration> way,
                               int64_t in_line) {
  if (!common_ || now - round_trip < common_since_) return;
  if (!held_up_) ++round_probes_;
  round_trips_now_.Add(round_trip);
  if (way) ways_now_.Add(*way);
  const Duration queue = OwnOf(QueueOf(round_trip, way));
  // A lost packet makes probes come late too, but then all at once, the last of them in time.
  if (queue <= Target() * 2) {
    queued_since_.reset();
  } else if (!queued_since_) {
    queued_since_ = now;
  } else if (starting_ && now - *queued_since_ > std::max(*shortest_ / 8, kQueuedFor)) {
    EndStart(queue, in_line);
  }
}

void CongestionWindow::OnChunk(Duration took) {
  chunk_time_ = Smooth(chunk_time_, took, 16);
}

void CongestionWindow::OnIdle(Instant now) {
  if (!rests_) idle_since_ = now;
  rests_ = true;
  chunk_time_ = Duration();
}

// As if there had been no rest: what goes in short bursts would have no whole round otherwise.
void CongestionWindow::Resume(Instant now, int64_t received_bytes, Instant at) {
  queued_since_.reset();
  const Duration rest = now - *idle_since_;
  if (round_began_ && rest < kRested) {
    round_began_ = *round_began_ + rest;
    first_at_ = first_at_ + (at - last_at_);
    first_bytes_ += received_bytes - last_bytes_;
    last_at_ = at;
    last_bytes_ = received_bytes;
  } else {
    round_began_.reset();
    first_bytes_ = -1;
    limit_ = Limit::kNothing;
  }
}

void CongestionWindow::OnDelivered(Instant now, int64_t received_bytes, Instant at, Limit limit,
                                   int64_t in_line) {
  if (std::exchange(rests_, false)) Resume(now, received_bytes, at);
  limit_ = std::max(limit_, limit);
  most_in_line_ = std::max(most_in_line_, in_line);
  if (first_bytes_ < 0) {
    // A start that rested may have come near the line: the next step shows it.
    if (idle_since_ && now - *idle_since_ > kRested) gentle_rounds_ = kGentleRounds;
    first_bytes_ = last_bytes_ = received_bytes;
    first_at_ = last_at_ = at;
  }
  if (received_bytes > last_bytes_ && at >= last_at_) {
    const auto window = static_cast<double>(window_);
    const bool in_use = limit == Limit::kWindow && in_line > window_ - window_ / 4;
    if (starting_ && in_use && (rate_ == 0 || window < kHeldAtStart * Holds(rate_))) {
      const double growth = (gentle_rounds_ > 0 ? kGentleGrowth : kStartGrowth) *
                            static_cast<double>(received_bytes - last_bytes_);
      window_ = std::min(window_ + static_cast<int64_t>(growth), kMostBytes);
    }
    last_bytes_ = received_bytes;
    last_at_ = at;
  }
  if (!round_began_) {
    round_began_ = now;
    round_trips_now_ = ways_now_ = Quickest();
    round_probes_ = 0;
    return;
  }
  const Duration round = std::max(shortest_.value_or(kRoundLeast), kRoundLeast);
  if (now - *round_began_ >= round && round_probes_ >= QueueFollower::kProbesPerRound)
    EndRound(now);
}

void CongestionWindow::EndRound(Instant now) {
  const double seconds = (last_at_ - first_at_).seconds();
  const double rate =
      seconds > 1e-4 ? static_cast<double>(last_bytes_ - first_bytes_) / seconds : 0;
  const Duration queue = OwnOf(RoundsQueue());
  if ((held_back_ || limit_ != Limit::kNothing) && rate > 0)
    rate_ = rate_ == 0 ? rate : rate_ + (rate - rate_) / (starting_ ? 2 : 4);
  // Who was held back and yet filled the window at times would have sent more with a larger one.
  const bool fills = limit_ == Limit::kWindow && most_in_line_ > window_ - window_ / 4;
  if (held_back_ && !fills) {
    if (!starting_ && rate > 0 && queue > Target()) Follow(queue, rate);
  } else if (limit_ != Limit::kNothing && rate > 0) {
    held_ = queue < Target() && (limit_ == Limit::kConnections ||
                                 static_cast<double>(window_) > kHeldShare * Holds(rate));
    stuck_rounds_ =
        static_cast<double>(window_) > kHeldAtStart * Holds(rate) ? stuck_rounds_ + 1 : 0;
    if (!starting_) {
      if (limit_ == Limit::kWindow || queue > Target()) Follow(queue, rate);
    } else if (stuck_rounds_ >= kStuckRounds) {
      starting_ = false;
    }
  }
  gentle_rounds_ = std::max(gentle_rounds_ - 1, 0);
  round_began_ = now;
  round_trips_now_ = ways_now_ = Quickest();
  round_probes_ = 0;
  limit_ = Limit::kNothing;
  held_back_ = false;
  most_before_ = std::exchange(most_in_line_, 0);
  first_bytes_ = last_bytes_;
  first_at_ = last_at_;
}

// A chunk is indivisible: where it takes longer than the target, that is the target.
Duration CongestionWindow::Target() const {
  if (rate_ <= 0) return kTargetQueue;
  return std::max(kTargetQueue, Duration::Seconds(static_cast<double>(ChunkBytes()) / rate_ / 2));
}

// What the line itself can hold at the rate that it has shown.
double CongestionWindow::Holds(double rate) const {
  return std::max(rate, rate_) * (shortest_.value_or(kRoundLeast) + Target()).seconds();
}

int64_t CongestionWindow::InUse() const {
  return std::min(window_, std::max({most_in_line_, most_before_, kLeastBytes}));
}

// Of what was in the line when this probe left so much fills it; the rest was the queue it met.
void CongestionWindow::EndStart(Duration queue, int64_t in_line) {
  starting_ = false;
  round_began_.reset();
  follower_ = QueueFollower();
  follower_.Wait();
  const double share = (*shortest_ + Target()).seconds() / (*shortest_ + queue).seconds();
  const double fits = kStillGrows * share * static_cast<double>(in_line);
  window_ = std::clamp(static_cast<int64_t>(fits), kLeastBytes, window_);
}

void CongestionWindow::StartAnew() {
  starting_ = true;
  gentle_rounds_ = kGentleRounds;
  stuck_rounds_ = 0;
  follower_ = QueueFollower();
  queued_since_.reset();
}

void CongestionWindow::Follow(Duration queue, double rate) {
  const std::optional<double> change = follower_.Change({queue, Target(), *shortest_});
  if (!change) return;
  const bool shrinks = queue > Target();
  const auto window = static_cast<double>(shrinks ? InUse() : window_);
  const double holds = Holds(rate);
  if (!shrinks && follower_.Eagerness() > kGentleGrowth && window < kHeldShare * holds)
    return StartAnew();
  if (!shrinks && window > kHeldMost * holds) return;
  window_ = std::clamp(static_cast<int64_t>(window * (1 + *change)), kLeastBytes, kMostBytes);
}

int64_t CongestionWindow::BurstBytes() const {
  const double bytes = rate_ * kBurstTime.seconds();
  return std::clamp(static_cast<int64_t>(bytes), kChunkLeast, kBurstMost);
}

int64_t CongestionWindow::ChunkBytes() const {
  return std::min(BurstBytes(), kChunkMost);
}

}  // namespace skerry
