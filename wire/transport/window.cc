#include "wire/transport/window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace skerry {
namespace {

constexpr Duration kRoundLeast = Duration::Millis(20);
constexpr int kProbesPerRound = 3;  // at least: each may have met a chunk
constexpr int kManyProbes = 5;  // the quickest of so many crossed a line that was empty by chance
constexpr int kBunched = 4;     // closer than a fourth of how they were sent
constexpr Duration kQueuedFor = Duration::Millis(10);
constexpr double kStartGrowth = 0.4;  // of what was delivered
// In the midst of growth the line holds more than what a round trip has put into it.
constexpr double kStillGrows = 1.1;
constexpr double kGentleGrowth = 0.25;
constexpr int kGentleRounds = 2;
constexpr Duration kRested = Duration::Seconds(1);
constexpr int kStuckRounds = 4;  // without a rate that explains the window, and the start is over
constexpr double kGain = 0.6;    // of what would put the queue right in one round
constexpr double kGrowthMost = 0.3, kGrowthLeast = 0.005, kShrinkMost = 0.3;  // in a round
constexpr double kEmptyDoubles = 1.5;  // rounds without queue in which growth doubles
// Growth shows a round trip later: each step adds no more to the queue.
constexpr Duration kGrowthQueue = Duration::Millis(8);
constexpr double kSmallShrink = 0.02;  // more, and its effect is waited for
constexpr double kHeldShare = 1.5;     // more than the line holds, and TCP holds bytes back
constexpr double kHeldMost = 3;        // more would only fill TCP's buffers
constexpr double kHeldAtStart = 5;     // the rate lags behind the window then

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

void CongestionWindow::Quickest::Add(Duration value) {
  if (count_ == 0 || value < least_) {
    second_ = least_;
    least_ = value;
  } else if (count_ == 1 || value < second_) {
    second_ = value;
  }
  ++count_;
}

Duration CongestionWindow::QueueOf(Duration round_trip, std::optional<Duration> way) const {
  const Duration both = round_trip - *shortest_;
  return way ? std::clamp(*way - *shortest_way_, both / 4, both) : both;
}

Duration CongestionWindow::RoundsQueue() const {
  const bool is_few = round_probes_ < kManyProbes;
  const auto usual = [&](const Quickest& of) { return is_few ? of.least() : of.second(); };
  // A round may be older than what the shortest is remembered for.
  const Duration both = std::max(usual(round_trips_now_) - *shortest_, Duration());
  if (ways_now_.is_empty()) return both;
  const Duration least = std::min(round_trips_now_.least() - *shortest_, both);
  return std::clamp(usual(ways_now_) - *shortest_way_, least / 4, both);
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
  if (now - *round_began_ >= round && round_probes_ >= kProbesPerRound) EndRound(now);
}

void CongestionWindow::EndRound(Instant now) {
  const double seconds = (last_at_ - first_at_).seconds();
  const double rate =
      seconds > 1e-4 ? static_cast<double>(last_bytes_ - first_bytes_) / seconds : 0;
  const Duration queue = OwnOf(RoundsQueue());
  if ((held_back_ || limit_ != Limit::kNothing) && rate > 0)
    rate_ = rate_ == 0 ? rate : rate_ + (rate - rate_) / (starting_ ? 2 : 4);
  if (held_back_) {
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
  shrunk_ = true;
  round_began_.reset();
  empty_rounds_ = 0;
  const double share = (*shortest_ + Target()).seconds() / (*shortest_ + queue).seconds();
  const double fits = kStillGrows * share * static_cast<double>(in_line);
  window_ = std::clamp(static_cast<int64_t>(fits), kLeastBytes, window_);
}

void CongestionWindow::StartAnew() {
  starting_ = true;
  gentle_rounds_ = kGentleRounds;
  stuck_rounds_ = empty_rounds_ = 0;
  queued_since_.reset();
}

void CongestionWindow::Follow(Duration queue, double rate) {
  // What was taken away shows a round later.
  if (std::exchange(shrunk_, false)) return;
  const double excess = (queue - Target()).seconds();
  const auto window = static_cast<double>(excess > 0 ? InUse() : window_);
  empty_rounds_ = queue < Target() / 2 ? empty_rounds_ + 1 : 0;
  double change = -kGain * excess / (*shortest_ + queue).seconds();
  if (excess > 0) {
    change = std::max(change, -kShrinkMost);
  } else {
    const double eager = kGrowthLeast * std::exp2(empty_rounds_ / kEmptyDoubles);
    const double most = std::min(kGrowthMost, kGrowthQueue.seconds() / shortest_->seconds());
    if (eager > kGentleGrowth && window < kHeldShare * Holds(rate)) return StartAnew();
    change = std::clamp(std::max(change, eager), 0.0, most);
    if (window > kHeldMost * Holds(rate)) change = 0;
  }
  shrunk_ = change < -kSmallShrink;
  window_ = std::clamp(static_cast<int64_t>(window * (1 + change)), kLeastBytes, kMostBytes);
}

int64_t CongestionWindow::BurstBytes() const {
  const double bytes = rate_ * kBurstTime.seconds();
  return std::clamp(static_cast<int64_t>(bytes), kChunkLeast, kBurstMost);
}

int64_t CongestionWindow::ChunkBytes() const {
  return std::min(BurstBytes(), kChunkMost);
}

}  // namespace skerry
