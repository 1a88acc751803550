#include "node/link_prober.h"

#include <algorithm>

namespace skerry {

void LinkProber::SendPing(Context& context, int64_t padding) {
  nonce_ = context.rng().Next();
  sent_ = context.now();
  context.Send(
      request_->target,
      Ping{nonce_, padding > 0 ? MakePayload(Bytes(static_cast<size_t>(padding), 0x5a)) : nullptr});
}

void LinkProber::OnRequest(Context& context, const ProbeRequest& request) {
  request_ = request;
  request_->bytes = std::clamp<int64_t>(request.bytes, 1, kPaddingBytesMax);
  round_trips_.clear();
  SendPing(context, 0);
}

std::optional<LinkReading> LinkProber::OnPong(Context& context, const NodeId& from,
                                              const Pong& pong) {
  if (!request_ || from != request_->target || pong.nonce != nonce_) return std::nullopt;
  const Duration elapsed = context.now() - sent_;
  if (static_cast<int>(round_trips_.size()) < kEmptyPings) {
    round_trips_.push_back(elapsed);
    const bool last = static_cast<int>(round_trips_.size()) == kEmptyPings;
    SendPing(context, last ? request_->bytes : 0);
    return std::nullopt;
  }
  std::sort(round_trips_.begin(), round_trips_.end());
  const Duration round_trip = round_trips_[kEmptyPings / 2];
  // On a link faster than the clock of a busy machine the difference may vanish: at most 10 Gbit/s
  // is believed.
  const double transfer_s =
      std::max((elapsed - round_trip).seconds(), static_cast<double>(request_->bytes) / 1.25e9);
  LinkReading reading{request_->target, round_trip.seconds(),
                      static_cast<double>(request_->bytes) / transfer_s};
  request_.reset();
  return reading;
}

}  // namespace skerry
