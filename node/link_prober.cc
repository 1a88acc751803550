#include "node/link_prober.h"

#include <algorithm>
#include <utility>

namespace skerry {

void LinkProber::SendPing(Context& context) {
  nonce_ = context.rng().Next();
  sent_ = context.now();
  const bool is_padded = static_cast<int>(empty_.size()) == kEmptyPings;
  context.Send(request_->target, Ping{nonce_, is_padded ? request_->bytes : 0});
}

void LinkProber::OnRequest(Context& context, const ProbeRequest& request) {
  request_ = request;
  request_->bytes = std::clamp<int64_t>(request.bytes, 1, kPaddingBytesMax);
  empty_.clear();
  padded_.clear();
  SendPing(context);
}

Duration LinkProber::RoundTrip() const {
  std::vector<Duration> sorted = empty_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

bool LinkProber::IsSettled() const {
  constexpr double kFaster = 0.9;
  const size_t count = padded_.size();
  if (count == 0) return false;
  const Duration round_trip = RoundTrip(), last = padded_.back() - round_trip;
  if (count == 1) return last > round_trip * kManyRoundTrips;
  const Duration before = padded_[count - 2] - round_trip;
  return count == kPaddedPingsMax || last.seconds() > kFaster * before.seconds();
}

std::optional<LinkReading> LinkProber::OnPong(Context& context, const NodeId& from,
                                              const Pong& pong) {
  if (!request_ || from != request_->target || pong.nonce != nonce_) return std::nullopt;
  const bool is_padded = static_cast<int>(empty_.size()) == kEmptyPings;
  (is_padded ? padded_ : empty_).push_back(context.now() - sent_);
  if (!IsSettled()) {
    SendPing(context);
    return std::nullopt;
  }
  const Duration round_trip = RoundTrip();
  const Duration fastest = *std::min_element(padded_.begin(), padded_.end());
  // On a link faster than the clock of a busy machine the difference may vanish: at most 10 Gbit/s
  // is believed.
  const auto bytes = static_cast<double>(request_->bytes);
  const double transfer_s = std::max((fastest - round_trip).seconds(), bytes / 1.25e9);
  LinkReading reading{request_->target, round_trip.seconds(), bytes / transfer_s};
  request_.reset();
  return reading;
}

}  // namespace skerry
