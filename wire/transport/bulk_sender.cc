#include "wire/transport/bulk_sender.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "wire/transport/bulk_receiver.h"

namespace skerry {
namespace {

// A lost packet holds up all that follows it on its connection for a round trip: so several, even
// where one could carry the window (3.5 MB per round trip with stock buffers).
constexpr int64_t kBytesPerStripe = 1'500'000;
constexpr int64_t kEarlyStripes = 4;  // together from the start: a late one is cold among warm ones
constexpr int kHeldRounds = 12;       // acknowledgements between two more stripes
constexpr size_t kGivenUpMax = 4096;
constexpr double kProbeBytes = 200, kProbeShare = 0.005;  // of the line
constexpr Duration kProbeLeast = Duration::Millis(5), kProbeMost = Duration::Millis(100);

size_t At(TrafficClass traffic) {
  return static_cast<size_t>(traffic);
}

}  // namespace

void BulkSender::Enqueue(Instant now, OutgoingFrame frame) {
  SKERRY_CHECK(frame.traffic != TrafficClass::kControl, "control does not go in chunks");
  if (transfers_.empty()) progress_ = now;
  if (next_transfer_ == 1) credit_bytes_ = BulkReceiver::kCreditBytes;
  if (frame.traffic == TrafficClass::kActivation) last_activation_ = now;
  const uint64_t id = next_transfer_++;
  ++unfinished_[At(frame.traffic)];
  queues_[At(frame.traffic)].push_back(id);
  Transfer& transfer = transfers_[id];
  transfer.total_bytes = frame.bytes();
  transfer.frame = std::move(frame);
  if (!next_probe_) next_probe_ = now;
}

bool BulkSender::Withdraw(TrafficClass traffic, uint64_t sequence) {
  auto& queue = queues_[At(traffic)];
  for (auto at = queue.begin(); at != queue.end(); ++at) {
    const auto transfer = transfers_.find(*at);
    if (transfer->second.frame.sequence != sequence || transfer->second.cut > 0) continue;
    queue.erase(at);
    transfers_.erase(transfer);
    --unfinished_[At(traffic)];
    if (transfers_.empty()) ForgetRepeats();
    return true;
  }
  return false;
}

void BulkSender::OpenStripe(Instant now, StripeId stripe) {
  stripes_.try_emplace(stripe).first->second.heard = now;
}

void BulkSender::CloseStripe(StripeId stripe) {
  Requeue(stripe);
  stripes_.erase(stripe);
}

bool BulkSender::ActivationsMatter(Instant now) const {
  return last_activation_ && now - *last_activation_ < kActivationsMatterFor;
}

// ---- what goes next ----------------------------------------------------------------------------

std::optional<BulkSender::Chunk> BulkSender::Cut(uint64_t id) {
  Transfer& transfer = transfers_.at(id);
  Chunk chunk;
  chunk.transfer = id;
  chunk.traffic = transfer.frame.traffic;
  chunk.offset = transfer.cut;
  // What is left is not left as a crumb.
  const int64_t left = transfer.total_bytes - transfer.cut, usual = window_.ChunkBytes();
  chunk.bytes = left < usual + usual / 2 ? left : usual;
  if (new_bytes_ + chunk.bytes > credit_bytes_) return std::nullopt;
  new_bytes_ += chunk.bytes;
  transfer.open.insert(chunk.offset);
  const int64_t cut = transfer.cut + chunk.bytes;
  const auto envelope = static_cast<int64_t>(transfer.frame.envelope.size());
  const auto hash = [&](std::span<const uint8_t> bytes, int64_t begin, int64_t end) {
    if (begin < end)
      transfer.hash.Add(
          bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  };
  hash(transfer.frame.envelope, transfer.cut, std::min(cut, envelope));
  hash(View(transfer.frame.payload), std::max(transfer.cut, envelope) - envelope, cut - envelope);
  transfer.cut = cut;
  if (cut == transfer.total_bytes) {
    transfer.digest = transfer.hash.Finish();
    queues_[At(chunk.traffic)].pop_front();
  }
  return chunk;
}

std::optional<BulkSender::Chunk> BulkSender::NextChunk(bool only_activations) {
  const size_t end = only_activations ? At(TrafficClass::kActivation) + 1 : kTrafficClasses;
  for (size_t traffic = At(TrafficClass::kActivation); traffic < end; ++traffic) {
    auto& again = again_[traffic];
    while (!again.empty()) {
      const Chunk chunk = again.front();
      again.pop_front();
      const auto transfer = transfers_.find(chunk.transfer);
      if (transfer != transfers_.end() && transfer->second.open.contains(chunk.offset))
        return chunk;
    }
    if (!queues_[traffic].empty()) return Cut(queues_[traffic].front());
  }
  return std::nullopt;
}

std::map<StripeId, BulkSender::Stripe>::iterator BulkSender::StripeFor(Instant now,
                                                                       TrafficClass traffic) {
  const auto second = stripes_.lower_bound(1);
  const bool has_second = second != stripes_.end() && second->first < kSignalStripe;
  const bool keeps_first =
      traffic != TrafficClass::kActivation && has_second && ActivationsMatter(now);
  const bool has_bulk = !stripes_.empty() && stripes_.begin()->first < kSignalStripe;
  auto best = stripes_.end();
  for (auto at = stripes_.begin(); at != stripes_.end(); ++at) {
    if ((keeps_first && at->first == 0) || at->second.chunks >= kUnderWayPerStripeMax) continue;
    if (at->first == kSignalStripe || (has_bulk && at->first == kControlStripe)) continue;
    if (best == stripes_.end() || at->second.bytes < best->second.bytes) best = at;
  }
  return best;
}

std::optional<BulkSender::Transmission> BulkSender::Next(Instant now) {
  const int64_t room = window_.bytes() + HeldBytes() - under_way_bytes_;
  const int64_t overdraft = std::max(window_.bytes() / 4, 2 * window_.ChunkBytes());
  if (room <= -overdraft || transfers_.empty()) return std::nullopt;
  if (room <= 0) limited_ = true;
  const auto lane = room > 0 ? TrafficClass::kDelta : TrafficClass::kActivation;
  if (StripeFor(now, lane) == stripes_.end()) return std::nullopt;
  const auto chunk = NextChunk(room <= 0);
  if (!chunk) return std::nullopt;
  auto stripe = StripeFor(now, chunk->traffic);
  const uint64_t serial = next_serial_++;
  Transmission out{stripe->first, Assemble(*chunk, serial), serial};
  if (stripe->second.chunks == 0) stripe->second.heard = now;
  ++stripe->second.chunks;
  stripe->second.bytes += chunk->bytes;
  under_way_bytes_ += chunk->bytes;
  sent_[serial] = {*chunk, stripe->first, now};
  return out;
}

Bytes BulkSender::Assemble(const Chunk& chunk, uint64_t serial) {
  const Transfer& transfer = transfers_.at(chunk.transfer);
  ChunkHeader header;
  header.session = session_;
  header.serial = serial;
  header.transfer = chunk.transfer;
  header.traffic = chunk.traffic;
  header.envelope_bytes = static_cast<int64_t>(transfer.frame.envelope.size());
  header.total_bytes = transfer.total_bytes;
  header.offset = chunk.offset;
  const int64_t end = chunk.offset + chunk.bytes;
  if (end == transfer.total_bytes) header.digest = transfer.digest;
  Bytes bytes = EncodeLink(header);
  bytes.reserve(bytes.size() + static_cast<size_t>(chunk.bytes));
  const auto append = [&](std::span<const uint8_t> from, int64_t begin, int64_t until) {
    begin = std::max<int64_t>(begin, 0);
    if (begin < until) bytes.insert(bytes.end(), from.begin() + begin, from.begin() + until);
  };
  append(transfer.frame.envelope, chunk.offset, std::min(end, header.envelope_bytes));
  append(View(transfer.frame.payload), chunk.offset - header.envelope_bytes,
         end - header.envelope_bytes);
  return bytes;
}

void BulkSender::Free(const Sent& sent) {
  under_way_bytes_ -= sent.chunk.bytes;
  const auto stripe = stripes_.find(sent.stripe);
  if (stripe == stripes_.end()) return;
  --stripe->second.chunks;
  stripe->second.bytes -= sent.chunk.bytes;
}

void BulkSender::TakeBack(uint64_t serial) {
  const auto sent = sent_.find(serial);
  if (sent == sent_.end()) return;
  Free(sent->second);
  again_[At(sent->second.chunk.traffic)].push_front(sent->second.chunk);
  sent_.erase(sent);
}

void BulkSender::Requeue(StripeId stripe) {
  for (auto at = sent_.begin(); at != sent_.end();) {
    if (at->second.stripe != stripe) {
      ++at;
      continue;
    }
    Free(at->second);
    again_[At(at->second.chunk.traffic)].push_back(at->second.chunk);
    given_up_[at->first] = at->second.chunk;
    if (given_up_.size() > kGivenUpMax) given_up_.erase(given_up_.begin());
    at = sent_.erase(at);
  }
}

// ---- what comes back ---------------------------------------------------------------------------

void BulkSender::Acknowledge(Instant now, uint64_t serial) {
  Chunk chunk;
  if (const auto sent = sent_.find(serial); sent != sent_.end()) {
    chunk = sent->second.chunk;
    window_.OnChunk(now - sent->second.at);
    Free(sent->second);
    if (const auto stripe = stripes_.find(sent->second.stripe); stripe != stripes_.end()) {
      stripe->second.heard = now;
      stripe->second.patience = kPatienceLeast;
    }
    sent_.erase(sent);
  } else if (const auto late = given_up_.find(serial); late != given_up_.end()) {
    chunk = late->second;
    given_up_.erase(late);
  } else {
    return;
  }
  progress_ = now;
  const auto at = transfers_.find(chunk.transfer);
  if (at == transfers_.end()) return;
  Transfer& transfer = at->second;
  if (transfer.open.erase(chunk.offset) > 0) arrived_bytes_ += chunk.bytes;
  if (transfer.cut < transfer.total_bytes || !transfer.open.empty()) return;
  --unfinished_[At(chunk.traffic)];
  transfers_.erase(at);
  if (transfers_.empty()) ForgetRepeats();
}

// All has arrived; what is still under way are second copies.
void BulkSender::ForgetRepeats() {
  for (const auto& [serial, sent] : sent_) Free(sent);
  sent_.clear();
  given_up_.clear();
  for (auto& again : again_) again.clear();
}

void BulkSender::OnAcks(Instant now, const AcksMessage& acks) {
  if (acks.session != session_) return;
  for (const uint64_t serial : acks.serials) Acknowledge(now, serial);
  // By this side's count of what has arrived: the peer may have begun to count anew.
  const int64_t room =
      std::clamp<int64_t>(acks.credit_bytes - acks.received_bytes, 0, BulkReceiver::kCreditBytes);
  credit_bytes_ = std::max(credit_bytes_, arrived_bytes_ + room);
  window_.OnDelivered(now, acks.received_bytes, Instant::FromNanos(acks.at_nanos), limited_);
  limited_ = false;
  carried_.OnDelivered(acks.received_bytes, Instant::FromNanos(acks.at_nanos));
  if (transfers_.empty()) {
    window_.OnIdle();
    carried_.OnIdle();
  }
  held_rounds_ = window_.IsHeldByTcp() ? held_rounds_ + 1 : 0;
  if (held_rounds_ < kHeldRounds) return;
  held_rounds_ = 0;
  grown_ = std::min<uint16_t>(static_cast<uint16_t>(grown_ + 1), kSignalStripe - 1);
}

void BulkSender::OnHeld(StripeId stripe, int64_t bytes) {
  if (const auto at = stripes_.find(stripe); at != stripes_.end()) at->second.held = bytes;
}

int64_t BulkSender::HeldBytes() const {
  int64_t held = 0;
  for (const auto& [id, stripe] : stripes_) held += std::min(stripe.held, stripe.bytes);
  return std::min(held, window_.bytes() / 4);
}

void BulkSender::OnEcho(Instant now, const ProbeMessage& probe) {
  const Instant sent = Instant::FromNanos(probe.sent_nanos);
  if (sent > now) return;
  std::optional<Duration> way;
  if (probe.arrived_nanos >= 0) way = Duration::Nanos(probe.arrived_nanos - probe.sent_nanos);
  window_.OnProbe(now, now - sent, way);
}

// ---- time --------------------------------------------------------------------------------------

std::optional<ProbeMessage> BulkSender::ProbeDue(Instant now) {
  if (!next_probe_ || *next_probe_ > now) return std::nullopt;
  if (transfers_.empty()) {
    next_probe_.reset();
    return std::nullopt;
  }
  Duration every = window_.round_trip().value_or(kProbeMost) / 5;
  if (window_.bytes_per_s() > 0)
    every = std::max(every, Duration::Seconds(kProbeBytes / (kProbeShare * window_.bytes_per_s())));
  next_probe_ = now + std::clamp(every, kProbeLeast, kProbeMost);
  return ProbeMessage{(now - Instant()).nanos(), false, true};
}

Duration BulkSender::Patience(const Stripe& stripe) const {
  const Duration usual = window_.chunk_time() * 4 + window_.smoothed() * 4;
  return std::clamp(std::max(stripe.patience, usual), kPatienceLeast, kPatienceMost);
}

std::vector<StripeId> BulkSender::Tick(Instant now) {
  std::vector<StripeId> silent;
  for (auto& [id, stripe] : stripes_) {
    if (stripe.chunks == 0 || now - stripe.heard < Patience(stripe)) continue;
    silent.push_back(id);
    stripe.heard = now;
    stripe.patience = std::min(stripe.patience * 2, kPatienceMost);
  }
  for (const StripeId id : silent) Requeue(id);
  return silent;
}

std::optional<Instant> BulkSender::NextDue() const {
  std::optional<Instant> due = next_probe_;
  for (const auto& [id, stripe] : stripes_) {
    if (stripe.chunks == 0) continue;
    const Instant at = stripe.heard + Patience(stripe);
    if (!due || at < *due) due = at;
  }
  return due;
}

uint16_t BulkSender::WantedStripes(Instant now) const {
  if (transfers_.empty()) return 0;
  const auto per = [&](int64_t bytes) { return (window_.bytes() + bytes - 1) / bytes; };
  const int64_t bulk = std::max({per(kBytesPerStripe), int64_t{grown_}, kEarlyStripes});
  const int64_t most = kSignalStripe - 1;
  return static_cast<uint16_t>(std::min(bulk, most) + (ActivationsMatter(now) ? 1 : 0));
}

size_t BulkSender::Unfinished(TrafficClass traffic) const {
  return unfinished_[At(traffic)];
}

std::optional<Instant> BulkSender::StalledSince(Instant now) const {
  if (transfers_.empty() || now - progress_ < kStalledAfter) return std::nullopt;
  return progress_;
}

}  // namespace skerry
