#include "wire/transport/queue_follower.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace skerry {
namespace {

constexpr double kGain = 0.6;
constexpr double kShrinkMost = 0.3, kGrowthMost = 0.3, kGrowthLeast = 0.005;
constexpr double kEmptyDoubles = 1.5;  // rounds without queue in which growth doubles
// Growth shows a round trip later: each step adds no more to the queue.
constexpr Duration kGrowthQueue = Duration::Millis(8);
constexpr double kSmallShrink = 0.02;  // more, and its effect is waited for

}  // namespace

void Quickest::Add(Duration value) {
  if (count_ == 0 || value < least_) {
    second_ = least_;
    least_ = value;
  } else if (count_ == 1 || value < second_) {
    second_ = value;
  }
  ++count_;
}

double QueueFollower::Eagerness() const {
  return kGrowthLeast * std::exp2(empty_rounds_ / kEmptyDoubles);
}

std::optional<double> QueueFollower::Change(const Round& round) {
  if (std::exchange(waits_, false)) return std::nullopt;
  empty_rounds_ = round.queue < round.target / 2 ? empty_rounds_ + 1 : 0;
  const double change = -kGain * round.Excess();
  if (change < 0) {
    waits_ = change < -kSmallShrink;
    return std::max(change, -kShrinkMost);
  }
  const double most = std::min(kGrowthMost, kGrowthQueue.seconds() / round.round_trip.seconds());
  return std::min(std::max(change, Eagerness()), most);
}

}  // namespace skerry
