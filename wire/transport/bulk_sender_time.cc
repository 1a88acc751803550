// What a sender of bulk does by the clock: probes, patience, and how many connections it wants.
#include <algorithm>

#include "wire/transport/bulk_sender.h"

namespace skerry {
namespace {

// A lost packet holds up all that follows it on its connection for a round trip: so there are so
// many that at one loss in a thousand packets most of them have none of it (1.4 MB).
constexpr int64_t kBytesPerStripe = 700'000;
// A late one is cold among warm ones, and takes five round trips to stand: so they are asked for
// early, and so many together from the start.
constexpr int64_t kEarlyLeast = 4, kEarlyMost = 12;
constexpr Duration kRoundTripPerStripe = Duration::Millis(10);
constexpr size_t kProbesMost = 256;  // under way
constexpr size_t kProbesUnanswered = 32;
constexpr double kProbeBytes = 200, kProbeShare = 0.005;  // of the line
constexpr Duration kSignalsWithin = Duration::Seconds(5);
constexpr Duration kProbeLeast = Duration::Millis(5), kProbeMost = Duration::Millis(100);

}  // namespace

std::optional<SenderLine::Reading> BulkSender::OnEcho(Instant now, const ProbeMessage& probe) {
  const Instant sent = Instant::FromNanos(probe.sent_nanos);
  const auto found = probed_.find(probe.sent_nanos);
  if (found == probed_.end()) return std::nullopt;
  echoed_ = now;
  short_chunks_ = !probe.asks_short;
  std::optional<Duration> way;
  if (probe.arrived_nanos >= 0) way = Duration::Nanos(probe.arrived_nanos - probe.sent_nanos);
  const int64_t in_line = found->second;
  probed_.erase(probed_.begin(), probed_.upper_bound(probe.sent_nanos));
  window_.NotePath(now, now - sent, way);
  window_.OnProbe(now, now - sent, way, in_line);
  return SenderLine::Reading{sent, *window_.round_trip(), window_.QueueOf(now - sent, way)};
}

std::optional<ProbeMessage> BulkSender::ProbeDue(Instant now) {
  if (!next_probe_ || *next_probe_ > now) return std::nullopt;
  if (transfers_.empty()) {
    next_probe_.reset();
    return std::nullopt;
  }
  // Over the connection for control it would meet our own chunks.
  if (!HasStripe(kSignalStripe) && now - *began_ < kSignalsWithin) {
    next_probe_ = now + kProbeLeast;
    return std::nullopt;
  }
  // How far a start goes too far depends on how soon that is seen.
  const int times = window().is_starting() ? 4 : 1;
  Duration every = window().round_trip().value_or(kProbeMost) / (5 * times);
  const double most = times * kProbeShare * window().bytes_per_s();
  if (most > 0) every = std::max(every, Duration::Seconds(kProbeBytes / most));
  // A line that hardly carries what there is does not get still more.
  if (probed_.size() >= kProbesUnanswered) every = kProbeMost;
  next_probe_ = now + std::clamp(every, kProbeLeast, kProbeMost);
  const int64_t nanos = (now - Instant()).nanos();
  if (probed_.size() >= kProbesMost) probed_.erase(probed_.begin());
  probed_[nanos] = InLine();
  return ProbeMessage{nanos, false, true, -1, true};
}

Duration BulkSender::Patience() const {
  return window().chunk_time() * 4 + window().smoothed() * 4;
}

std::vector<StripeId> BulkSender::Tick(Instant now) {
  std::vector<StripeId> silent;
  for (auto& [id, stripe] : stripes_)
    if (stripe.GivesNoSign(now, Patience())) silent.push_back(id);
  for (const StripeId id : silent) Requeue(id);
  return silent;
}

std::optional<Instant> BulkSender::NextDue() const {
  std::optional<Instant> due = next_probe_;
  if (look_again_ && (!due || *look_again_ < *due)) due = look_again_;
  for (const auto& [id, stripe] : stripes_) {
    if (stripe.is_empty()) continue;
    const Instant at = stripe.SilentAt(Patience());
    if (!due || at < *due) due = at;
  }
  return due;
}

uint16_t BulkSender::WantedStripes(Instant now) const {
  if (transfers_.empty()) return 0;
  // As many as the line has shown that it needs: a late one is cold among warm ones.
  const Duration round_trip = window().round_trip().value_or(Duration());
  const double line = carried_.best() * round_trip.seconds();
  const int64_t early =
      std::clamp(round_trip.nanos() / kRoundTripPerStripe.nanos(), kEarlyLeast, kEarlyMost);
  const int64_t needed =
      std::max(window().bytes(), static_cast<int64_t>(line)) / kBytesPerStripe + 1;
  const int64_t bulk = std::max({needed, int64_t{grown_}, early});
  const int64_t most = kSignalStripe - 1;
  return static_cast<uint16_t>(std::min(bulk, most) + (ActivationsMatter(now) ? 1 : 0));
}

std::optional<Instant> BulkSender::StalledSince(Instant now) const {
  if (transfers_.empty() || now - progress_ < kStalledAfter) return std::nullopt;
  return progress_;
}

bool BulkSender::AnswersProbes(Instant now) const {
  return echoed_ && now - *echoed_ < kProbeMost * 20;
}

}  // namespace skerry
