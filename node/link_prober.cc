#include "node/link_prober.h"

#include <algorithm>
#include <utility>

namespace skerry {
namespace {

constexpr double kFaster = 1.1;

}  // namespace

void LinkProber::SendPing(Context& context) {
  nonce_ = context.rng().Next();
  sent_ = context.now();
  const bool is_padded = static_cast<int>(empty_.size()) == kEmptyPings;
  padding_ = is_padded ? NextPadding() : 0;
  if (send_) return send_(context, request_->target, Ping{nonce_, padding_});
  context.Send(request_->target, Ping{nonce_, padding_});
}

// No larger than what passes in kLongest.
int64_t LinkProber::NextPadding() const {
  if (rates_.empty()) return std::min(kFirstPaddingBytes, request_->bytes);
  // On a far line a rate is that of the window at first, and the line carries far more.
  const Duration longest = looks_ ? std::max(kLongest, RoundTrip() * kOpeningRoundTrips) : kLongest;
  const auto passes = static_cast<int64_t>(rates_.back() * longest.seconds());
  return std::clamp(std::min(kPaddingGrowth * padding_, passes), padding_, request_->bytes);
}

void LinkProber::OnRequest(Context& context, const ProbeRequest& request) {
  request_ = request;
  request_->bytes = std::clamp<int64_t>(request.bytes, 1, kPaddingBytesMax);
  empty_.clear();
  rates_.clear();
  looks_ = false;
  SendPing(context);
}

Duration LinkProber::RoundTrip() const {
  std::vector<Duration> sorted = empty_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

// On a link faster than the clock of a busy machine the difference may vanish: at most 10 Gbit/s is
// believed.
double LinkProber::Rate(Duration took, int64_t bytes) const {
  const auto size = static_cast<double>(bytes);
  return size / std::max((took - RoundTrip()).seconds(), size / 1.25e9);
}

bool LinkProber::Grew() const {
  return rates_.size() >= 2 && rates_.back() > kFaster * rates_[rates_.size() - 2];
}

bool LinkProber::IsSettled() const {
  if (rates_.empty()) return false;
  if (rates_.size() > 1) return !Grew() || static_cast<int>(rates_.size()) == kPaddedPingsMax;
  const double transfer_s = static_cast<double>(padding_) / rates_.front();
  return transfer_s > (RoundTrip() * kManyRoundTrips).seconds();
}

LinkReading LinkProber::Reading() const {
  const double round_trip_s = RoundTrip().seconds();
  double rate = *std::max_element(rates_.begin(), rates_.end());
  if (!looks_ && Grew() && request_->bytes > kFirstPaddingBytes) {
    rate = std::max(rate, std::min(kBelievedGrowth * rate, kStockWindowBytes / round_trip_s));
  }
  return {request_->target, round_trip_s, rate};
}

std::optional<LinkReading> LinkProber::OnPong(Context& context, const NodeId& from,
                                              const Pong& pong,
                                              const std::optional<LinkReading>& shown) {
  if (!request_ || from != request_->target || pong.nonce != nonce_) return std::nullopt;
  const Duration took = context.now() - sent_;
  if (padding_ == 0) {
    empty_.push_back(took);
  } else {
    rates_.push_back(std::max(Rate(took, padding_), shown ? shown->bytes_per_s : 0));
    looks_ = shown.has_value();
  }
  if (!IsSettled()) {
    SendPing(context);
    return std::nullopt;
  }
  LinkReading reading = Reading();
  if (shown) reading.rtt_s = std::min(reading.rtt_s, shown->rtt_s);
  request_.reset();
  read_[reading.target] = reading;
  return reading;
}

std::optional<LinkReading> LinkProber::News(const std::optional<LinkReading>& shown) {
  if (!shown || (request_ && request_->target == shown->target)) return std::nullopt;
  const auto read = read_.find(shown->target);
  if (read == read_.end() || shown->bytes_per_s < kFaster * read->second.bytes_per_s)
    return std::nullopt;
  read->second.bytes_per_s = shown->bytes_per_s;
  read->second.rtt_s = std::min(read->second.rtt_s, shown->rtt_s);
  return read->second;
}

}  // namespace skerry
