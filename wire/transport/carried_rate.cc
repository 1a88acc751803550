#include "wire/transport/carried_rate.h"

#include <algorithm>

namespace skerry {

void CarriedRate::OnDelivered(int64_t received_bytes, Instant at) {
  const bool goes_on =
      readings_.empty() || (received_bytes > readings_.back().bytes && at > readings_.back().at);
  if (!goes_on) return;
  readings_.push_back({at, received_bytes});
  const auto is_far = [&](const Reading& then) {
    return at - then.at >= kStretch && received_bytes - then.bytes >= kStretchBytes;
  };
  if (!is_far(readings_.front())) return;
  while (is_far(readings_[1])) readings_.pop_front();
  const Reading& from = readings_.front();
  const double rate = static_cast<double>(received_bytes - from.bytes) / (at - from.at).seconds();
  readings_.back().rate = rate;
  if (from.rate > 0) Believe(at, std::min(rate, from.rate));
}

void CarriedRate::Believe(Instant at, double rate) {
  while (!bests_.empty() && bests_.back().second <= rate) bests_.pop_back();
  bests_.emplace_back(at, rate);
  while (at - bests_.front().first > kForget) bests_.pop_front();
}

}  // namespace skerry
