#include "wire/transport/window.h"

#include <algorithm>
#include <cmath>

namespace skerry {
namespace {

constexpr Duration kRoundLeast = Duration::Millis(20);
constexpr double kGrowth = 0.12;      // of the window in a round without queue
constexpr double kHeldShare = 1.5;    // more than this, and TCP holds bytes back
constexpr double kHeldMost = 3;       // more would only fill TCP's buffers
constexpr double kShrinkage = 0.25;   // at most, in a round
constexpr int kEmptyRounds = 8;       // then growth doubles: the line may have become faster
constexpr double kFastGrowth = 0.25;

Duration Smooth(Duration old, Duration value, int64_t share) {
  return old == Duration() ? value : old + Duration::Nanos((value - old).nanos() / share);
}

}  // namespace

void CongestionWindow::OnProbe(Instant now, Duration round_trip) {
  while (!shortest_of_.empty() && shortest_of_.back().second >= round_trip)
    shortest_of_.pop_back();
  shortest_of_.emplace_back(now, round_trip);
  while (now - shortest_of_.front().first > kForgetRoundTrip) shortest_of_.pop_front();
  shortest_ = shortest_of_.front().second;
  smoothed_ = Smooth(smoothed_, round_trip, 8);
  round_shortest_ = round_shortest_ ? std::min(*round_shortest_, round_trip) : round_trip;
}

void CongestionWindow::OnChunk(Duration took) {
  chunk_time_ = Smooth(chunk_time_, took, 16);
}

void CongestionWindow::OnIdle() {
  round_began_.reset();
  first_bytes_ = -1;
  limited_ = false;
  chunk_time_ = Duration();
}

void CongestionWindow::OnDelivered(Instant now, int64_t received_bytes, Instant at, bool limited) {
  limited_ = limited_ || limited;
  if (first_bytes_ < 0) {
    first_bytes_ = last_bytes_ = received_bytes;
    first_at_ = last_at_ = at;
  }
  if (received_bytes > last_bytes_ && at >= last_at_) {
    last_bytes_ = received_bytes;
    last_at_ = at;
  }
  if (!round_began_) {
    round_began_ = now;
    round_shortest_.reset();
    return;
  }
  const Duration round = std::max(shortest_.value_or(kRoundLeast), kRoundLeast);
  if (now - *round_began_ >= round && round_shortest_) EndRound(now);
}

void CongestionWindow::EndRound(Instant now) {
  const double seconds = (last_at_ - first_at_).seconds();
  const double rate =
      seconds > 1e-4 ? static_cast<double>(last_bytes_ - first_bytes_) / seconds : 0;
  const Duration queue = *round_shortest_ - *shortest_;
  if (limited_ && rate > 0) {
    rate_ = rate_ == 0 ? rate : rate_ + (rate - rate_) / (starting_ ? 2 : 4);
    if (starting_) {
      Start(queue, rate);
    } else {
      Follow(queue, rate);
    }
  }
  round_began_ = now;
  round_shortest_.reset();
  limited_ = false;
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
  return std::max(rate, rate_) * (*shortest_ + Target()).seconds();
}

void CongestionWindow::Start(Duration queue, double rate) {
  const auto window = static_cast<double>(window_);
  held_ = window > kHeldShare * Holds(rate);
  if (queue <= Target() * 2 && window < kHeldMost * Holds(rate)) {
    window_ = std::min(2 * window_, kMostBytes);
    return;
  }
  starting_ = false;
  if (queue <= Target()) return;
  // So much of it is in the line, the rest in the queue.
  const double fits = window * (*shortest_ + Target()).seconds() / (*shortest_ + queue).seconds();
  window_ = std::clamp(static_cast<int64_t>(fits), kLeastBytes, kMostBytes);
}

void CongestionWindow::Follow(Duration queue, double rate) {
  const double target = Target().seconds(), window = static_cast<double>(window_);
  const double error = std::clamp((target - queue.seconds()) / target, -4.0, 1.0);
  empty_rounds_ = error > 0.7 ? empty_rounds_ + 1 : 0;
  held_ = error > 0 && window > kHeldShare * Holds(rate);
  double change = error > 0 ? kGrowth * error : kShrinkage / 4 * error;
  if (empty_rounds_ > kEmptyRounds) change = kFastGrowth;
  if (change > 0 && window > kHeldMost * Holds(rate)) change = 0;
  window_ = std::clamp(static_cast<int64_t>(window * (1 + change)), kLeastBytes, kMostBytes);
}

int64_t CongestionWindow::ChunkBytes() const {
  if (rate_ <= 0) return kChunkLeast;
  const double bytes = rate_ * kChunkTime.seconds();
  return std::clamp(static_cast<int64_t>(bytes), kChunkLeast, kChunkMost);
}

}  // namespace skerry
