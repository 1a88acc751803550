#include "node/link_prober.h"

#include <algorithm>
#include <span>
#include <utility>

namespace skerry {
namespace {

constexpr double kFaster = 1.1;
constexpr double kAgree = 1.05;           // two trains
constexpr double kBelievedMost = 1.25e9;  // 10 Gbit/s: a busy machine's clock may show any rate
constexpr double kOpened = 0.75;          // of what earlier pings sent, at least: windows double
constexpr double kWellBelow = 0.95;
constexpr Duration kFar = Duration::Millis(40);
// Beyond, pings so large would not be back before the coordinator gives a probe up.
constexpr Duration kTooFar = Duration::Millis(500);
constexpr int64_t kSingleRoundTrips = 8;  // of a ping, where a round trip takes long
constexpr int kEmptyPingsNear = 5;  // soon back, and what they say is a large part of a reading

// A window that small pings have opened lets less pass on a far way than a long transfer gets
// there, and larger ones take little of a line beside the round trips.
int64_t LargestPadding(bool is_single, Duration rtt, int64_t asked) {
  return is_single && rtt >= kFar && rtt <= kTooFar ? LinkProber::kPaddingBytesMax : asked;
}

double HarmonicMean(std::span<const double> rates) {
  double sum = 0;
  for (const double rate : rates) sum += 1 / rate;
  return static_cast<double>(rates.size()) / sum;
}

// Of `bytes` in equal shares, each there at one of these times or earlier: delays only add, so the
// line runs below all of them, and nearest to all of them is the edge over the middle of their
// lower hull (Moon, Skelly & Towsley 1999, section IV, of delays that two clocks skew).
double RateOf(double bytes, std::span<const Duration> came) {
  std::vector<size_t> hull;
  const auto slope = [&](size_t i, size_t j) {
    return (came[j] - came[i]).seconds() / static_cast<double>(j - i);
  };
  for (size_t i = 0; i < came.size(); ++i) {
    while (hull.size() > 1 &&
           slope(hull[hull.size() - 2], i) < slope(hull[hull.size() - 2], hull.back()))
      hull.pop_back();
    hull.push_back(i);
  }
  const auto right = std::ranges::find_if(hull, [&](size_t i) { return 2 * i >= came.size(); });
  const double share = bytes / static_cast<double>(came.size());
  return share / std::max(slope(*std::prev(right), *right), share / kBelievedMost);
}

}  // namespace

void LinkProber::SendPings(Context& context, const NodeId& target, int count, int64_t padding,
                           Volley* volley) {
  for (int i = 0; i < count; ++i) {
    const Ping ping{context.rng().Next(), padding};
    volley->open.insert(ping.nonce);
    if (send_) {
      send_(context, target, ping);
    } else {
      context.Send(target, ping);
    }
  }
}

void LinkProber::SendVolley(Context& context) {
  const bool is_padded = HasRoundTrip();
  const int count = is_padded && pings_ == Pings::kTrains ? kTrainPings : 1;
  if (const int64_t padding = is_padded ? NextPadding() : padding_; padding != padding_) {
    padding_ = padding;
    soonest_.clear();
  }
  volley_ = {context.now(), is_padded, {}, {}};
  SendPings(context, request_->target, count, is_padded ? padding_ / count : 0, &volley_);
}

void LinkProber::Begin(Context& context, const ProbeRequest& transfer) {
  if (transfers_.size() == kTransfersMax && !transfers_.contains(transfer.target))
    transfers_.erase(transfers_.begin());
  Transfer& begun = transfers_[transfer.target];
  begun = {{context.now(), true, {}, {}},
           std::clamp<int64_t>(transfer.bytes, 1, kTransferBytesMax)};
  const int count = pings_ == Pings::kTrains ? kTrainPings : 1;
  SendPings(context, transfer.target, count, begun.bytes / count, &begun.volley);
}

// No larger than what passes in kLongest.
int64_t LinkProber::NextPadding() const {
  if (rates_.empty()) return std::min(kFirstPaddingBytes, request_->bytes);
  // On a far line a rate is that of the window at first, and the line carries far more.
  const bool takes_longer = !ReadsTrains() && RoundTrip() <= kTooFar;
  const int64_t round_trips = looks_ ? kOpeningRoundTrips : takes_longer ? kSingleRoundTrips : 0;
  const Duration longest = std::max(kLongest, RoundTrip() * round_trips);
  const auto passes = static_cast<int64_t>(rates_.back() * longest.seconds());
  const int64_t most =
      LargestPadding(pings_ == Pings::kSingle && !looks_, RoundTrip(), request_->bytes);
  return std::clamp(std::min(kPaddingGrowth * padding_, passes), padding_, most);
}

void LinkProber::OnRequest(Context& context, const ProbeRequest& request) {
  if (request.is_transfer) return Begin(context, request);
  request_ = request;
  began_ = context.now();
  request_->bytes = std::clamp<int64_t>(request.bytes, 1, kPaddingBytesMax);
  empty_.clear();
  rates_.clear();
  soonest_.clear();
  padded_bytes_ = 0;
  looks_ = false;
  SendVolley(context);
}

// On a near line a delay of the machines is a large part of it, and pings are soon back: there are
// more of them, and some between the trains, so that what was in the way of one is not in that of
// the next.
bool LinkProber::HasRoundTrip() const {
  const auto count = std::ssize(empty_);
  if (count < kEmptyPings) return false;
  if (pings_ == Pings::kSingle) return count >= kEmptyPingsNear || RoundTrip() >= kFar;
  const Duration wanted = kEmptyPingsFor + kBetweenTrains * std::ssize(rates_);
  return RoundTrip() * (count + 1) > wanted || count == kEmptyPingsMax;
}

Duration LinkProber::RoundTrip() const {
  return pings_ == Pings::kTrains ? empty_.front() : empty_[empty_.size() / 2];
}

// Of one ping, at least: what its two ends do with it is no part of the line.
double LinkProber::OnLineSeconds(double bytes, double took_s) const {
  return std::max(took_s - handling_s_per_byte_ * bytes, bytes / kBelievedMost);
}

double LinkProber::Rate() const {
  const auto bytes = static_cast<double>(padding_);
  if (pings_ == Pings::kTrains) return RateOf(bytes, soonest_);
  return bytes / OnLineSeconds(bytes, (soonest_.back() - RoundTrip()).seconds());
}

bool LinkProber::Grew() const {
  return rates_.size() >= 2 && rates_.back() > kFaster * rates_[rates_.size() - 2];
}

bool LinkProber::IsLate(Instant now) const {
  const double next_s = RoundTrip().seconds() + static_cast<double>(NextPadding()) / rates_.back();
  return (now - began_).seconds() + next_s > kEndsWithin.seconds();
}

bool LinkProber::IsSettled(Instant now) const {
  const auto count = static_cast<int>(rates_.size());
  if (count == 0) return false;
  if (IsLate(now)) return true;
  if (count == 1) {
    const double transfer_s = static_cast<double>(padding_) / rates_.front();
    return transfer_s > (RoundTrip() * kManyRoundTrips).seconds();
  }
  if (!ReadsTrains()) {
    const bool is_short =
        !looks_ && static_cast<double>(padding_) < rates_.back() * kTrainLeast.seconds();
    return count == kPaddedPingsMax || (!Grew() && !is_short);
  }
  if (padded_bytes_ + NextPadding() > kPaddedPingsMax * request_->bytes) return true;
  // Shorter trains, in which a delay of the machines matters, are as many as may be.
  const double last = rates_.back(), before = rates_[rates_.size() - 2];
  return static_cast<double>(padding_) / last >= kTrainLeast.seconds() &&
         std::max(last, before) < kAgree * std::min(last, before);
}

double LinkProber::SettledRate() const {
  // The last train is as long as any; a short one, held up somewhere and let go, may look like any
  // rate.
  if (pings_ == Pings::kTrains) return rates_.back();
  const double most = std::ranges::max(rates_);
  // All of one size: the first two open the window, none of the others is better.
  if (!looks_ && rates_.size() > 2 && padding_ * std::ssize(rates_) == padded_bytes_)
    return HarmonicMean(std::span(rates_).subspan(2));
  const int64_t largest = LargestPadding(true, RoundTrip(), request_->bytes);
  if (looks_ || !Grew() || largest <= kFirstPaddingBytes) return most;
  // A window that lets more pass than came was not what held it up.
  const double stock = kStockWindowBytes / RoundTrip().seconds();
  const double opened = kOpened * static_cast<double>(padded_bytes_ - padding_);
  if (most < kWellBelow * std::min(opened / RoundTrip().seconds(), stock)) return most;
  return std::max(most, std::min(kBelievedGrowth * most, stock));
}

// Of a train as large as the one before, whichever answer came sooner: that one's machines were in
// its way less.
void LinkProber::KeepSoonest() {
  if (pings_ == Pings::kSingle || soonest_.empty()) {
    soonest_ = volley_.answered;
    return;
  }
  for (size_t i = 0; i < soonest_.size(); ++i) {
    soonest_[i] = std::min(soonest_[i], volley_.answered[i]);
  }
}

std::optional<LinkReading> LinkProber::OnTransferPong(Instant now, const NodeId& from,
                                                      const Pong& pong) {
  const auto found = transfers_.find(from);
  if (found == transfers_.end() || found->second.volley.open.erase(pong.nonce) == 0)
    return std::nullopt;
  Volley& volley = found->second.volley;
  volley.answered.push_back(now - volley.sent);
  if (!volley.open.empty()) return std::nullopt;
  const auto known = read_.find(from);
  const double rtt_s = known == read_.end() ? 0 : known->second.rtt_s;
  // Of a train the first quarter is passed over, in which windows open.
  constexpr size_t kPassedOver = kTrainPings / 4;
  const bool is_train = pings_ == Pings::kTrains;
  const double began_s = is_train ? volley.answered[kPassedOver - 1].seconds() : rtt_s;
  const double share = is_train ? 1 - static_cast<double>(kPassedOver) / kTrainPings : 1;
  const double bytes = share * static_cast<double>(found->second.bytes);
  const double took_s = volley.answered.back().seconds() - began_s;
  const double line_s =
      is_train ? std::max(took_s, bytes / kBelievedMost) : OnLineSeconds(bytes, took_s);
  transfers_.erase(found);
  return LinkReading{from, rtt_s, bytes / line_s, true};
}

std::optional<LinkReading> LinkProber::OnPong(Context& context, const NodeId& from,
                                              const Pong& pong,
                                              const std::optional<LinkReading>& shown) {
  if (auto transfer = OnTransferPong(context.now(), from, pong)) return transfer;
  if (!request_ || from != request_->target || volley_.open.erase(pong.nonce) == 0)
    return std::nullopt;
  volley_.answered.push_back(context.now() - volley_.sent);
  if (!volley_.open.empty()) return std::nullopt;
  if (volley_.is_padded) {
    KeepSoonest();
    padded_bytes_ += padding_;
    rates_.push_back(std::max(Rate(), shown ? shown->bytes_per_s : 0));
    looks_ = shown.has_value();
  } else {
    const Duration took = volley_.answered.back();
    empty_.insert(std::ranges::upper_bound(empty_, took), took);
  }
  if (!IsSettled(context.now())) {
    SendVolley(context);
    return std::nullopt;
  }
  LinkReading reading{request_->target, RoundTrip().seconds(), SettledRate()};
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
