#include "wire/transport/bulk_sender.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "wire/transport/bulk_receiver.h"

namespace skerry {
namespace {

constexpr int kHeldRounds = 12;  // acknowledgements between two more stripes
constexpr size_t kGivenUpMax = 4096;
// In the line, and held at the far end: behind a loss, or because the receiver takes no more.
constexpr int64_t kWindowsUnderWay = 2;
constexpr Duration kNearRoundTrip = Duration::Millis(5);
constexpr double kPaceOfWindow = 1.5;  // in a round trip: the window bounds, not the pace
constexpr Duration kLostAfter = Duration::Millis(500);
constexpr Duration kLateLeast = Duration::Millis(20);

size_t At(TrafficClass traffic) {
  return static_cast<size_t>(traffic);
}

}  // namespace

void BulkSender::Enqueue(Instant now, OutgoingFrame frame) {
  SKERRY_CHECK(frame.traffic != TrafficClass::kControl, "control does not go in chunks");
  if (transfers_.empty()) {
    progress_ = now;
    refills_from_ = next_serial_;
  }
  if (next_transfer_ == 1) {
    credit_bytes_ = BulkReceiver::kCreditBytes;
    began_ = now;
  }
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
  stripes_.try_emplace(stripe, now).first->second.OnHeard(now);
}

void BulkSender::CloseStripe(StripeId stripe) {
  Requeue(stripe);
  stripes_.erase(stripe);
}

bool BulkSender::ActivationsMatter(Instant now) const {
  return last_activation_ && now - *last_activation_ < kActivationsMatterFor;
}

bool BulkSender::Waits(TrafficClass traffic) const {
  return !queues_[At(traffic)].empty() || !again_[At(traffic)].empty();
}

void BulkSender::BeginTurn(Instant now, const SenderLine::Common& common) {
  look_again_.reset();
  if (!std::exchange(was_asked_, transfers_.empty())) {
    limit_ = LimitNow(now, RoomNow());
    if (limit_ == CongestionWindow::Limit::kNothing) window_.OnHeldBack();
    if (under_way_bytes_ == 0 && !IsOwed()) progress_ = progress_ + (now - turn_began_);
  }
  turn_began_ = now;
  turn_bytes_ = IsNear() ? std::nullopt : common.chunk;
  if (!transfers_.empty()) window_.OnCommonQueue(common.since, common.queue);
}

// Whether something is to be sent again, as nothing was heard of it.
bool BulkSender::IsOwed() const {
  return std::ranges::any_of(again_, [this](const std::deque<Chunk>& again) {
    return std::ranges::any_of(again, [this](const Chunk& chunk) { return IsOpen(chunk); });
  });
}

SenderLine::Pair BulkSender::InSenderLine(Instant now) const {
  SenderLine::Pair pair;
  pair.is_lost = now - progress_ > Patience() + kLostAfter;
  pair.in_line = InLine();
  pair.window = window_.bytes();
  pair.chunk = window_.ChunkBytes();
  pair.is_near = IsNear();
  pair.is_urgent = Waits(TrafficClass::kActivation);
  pair.measures = Unfinished(TrafficClass::kData) == transfers_.size();
  return pair;
}

size_t BulkSender::Unfinished(TrafficClass traffic) const {
  return unfinished_[At(traffic)];
}

// ---- what goes next ----------------------------------------------------------------------------

std::optional<BulkSender::Chunk> BulkSender::Cut(uint64_t id, int64_t most_bytes) {
  Transfer& transfer = transfers_.at(id);
  Chunk chunk;
  chunk.transfer = id;
  chunk.traffic = transfer.frame.traffic;
  chunk.offset = transfer.cut;
  // What is left is not left as a crumb.
  const int64_t left = transfer.total_bytes - transfer.cut, usual = most_bytes;
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

bool BulkSender::IsOpen(const Chunk& chunk) const {
  const auto transfer = transfers_.find(chunk.transfer);
  return transfer != transfers_.end() && transfer->second.open.contains(chunk.offset);
}

std::optional<TrafficClass> BulkSender::NextTraffic(bool only_activations) {
  const size_t end = only_activations ? At(TrafficClass::kActivation) + 1 : kTrafficClasses;
  for (size_t traffic = At(TrafficClass::kActivation); traffic < end; ++traffic) {
    auto& again = again_[traffic];
    while (!again.empty() && !IsOpen(again.front())) again.pop_front();
    if (!again.empty() || !queues_[traffic].empty()) return static_cast<TrafficClass>(traffic);
  }
  return std::nullopt;
}

std::optional<BulkSender::Chunk> BulkSender::NextChunk(TrafficClass traffic, int64_t most_bytes) {
  auto& again = again_[At(traffic)];
  if (again.empty()) return Cut(queues_[At(traffic)].front(), most_bytes);
  const Chunk chunk = again.front();
  again.pop_front();
  return chunk;
}

// What is late goes over another connection, too (opportunistic retransmission; Raiciu et al., NSDI
// 2012, section 5): a frame waits for its last chunk, and the next of its class for the frame. Late
// is what others have overtaken that left round trips later (RACK, RFC 8985, over connections): a
// line that has become slow delays all alike. Where nothing else is to be sent, time alone will do.
std::map<uint64_t, BulkSender::Sent>::iterator BulkSender::Latest(
    Instant now, std::optional<TrafficClass> waits) {
  const auto at =
      std::ranges::find_if(sent_, [&](const auto& entry) { return IsOpen(entry.second.chunk); });
  if (at == sent_.end() || (waits && *waits < at->second.chunk.traffic)) return sent_.end();
  const Instant sent = at->second.at;
  const bool overtaken = newest_come_ - sent > window().smoothed() * (waits ? 2 : 1) + kLateLeast;
  const bool is_last = !waits && now - sent >= window().chunk_time() * 2 + kLateLeast;
  return overtaken || is_last ? at : sent_.end();
}

std::map<StripeId, BulkStripe>::iterator BulkSender::StripeFor(Instant now, TrafficClass traffic,
                                                               std::optional<StripeId> except) {
  const auto second = stripes_.lower_bound(1);
  const bool has_second = second != stripes_.end() && second->first < kSignalStripe;
  const bool keeps_first =
      traffic != TrafficClass::kActivation && has_second && ActivationsMatter(now);
  const bool has_bulk = !stripes_.empty() && stripes_.begin()->first < kSignalStripe;
  const int64_t burst = window().BurstBytes();
  auto best = stripes_.end();
  for (auto at = stripes_.begin(); at != stripes_.end(); ++at) {
    if (at->first == except || (keeps_first && at->first == 0) || !at->second.TakesMore(burst))
      continue;
    if (at->first == kSignalStripe || (has_bulk && at->first == kControlStripe)) continue;
    if (best == stripes_.end() || at->second.InLine() < best->second.InLine()) best = at;
  }
  return best;
}

BulkSender::Room BulkSender::RoomNow() const {
  const int64_t line = window_.bytes() - InLine();
  return {line, std::min(line, kWindowsUnderWay * window_.bytes() - under_way_bytes_)};
}

CongestionWindow::Limit BulkSender::LimitNow(Instant now, const Room& room) const {
  using Limit = CongestionWindow::Limit;
  if (now < pace_.until() || room.line <= 0) return Limit::kWindow;
  return room.bytes <= 0 ? Limit::kConnections : Limit::kNothing;
}

std::optional<BulkSender::Transmission> BulkSender::Next(Instant now, SenderLine::What what) {
  was_asked_ = true;
  look_again_.reset();
  using Limit = CongestionWindow::Limit;
  limit_ = Limit::kNothing;
  if (transfers_.empty()) return std::nullopt;
  const Room room = RoomNow();
  limit_ = LimitNow(now, room);
  if (room.bytes <= -std::max(window_.bytes() / 4, 2 * window().ChunkBytes())) return std::nullopt;
  look_again_ = now + BulkStripe::kReachesKernel;
  if (now < pace_.until()) {
    look_again_ = std::min(*look_again_, pace_.until());
    return std::nullopt;
  }
  const bool only_activations = what == SenderLine::What::kActivations;
  const auto traffic = NextTraffic(only_activations || room.bytes <= 0);
  if (only_activations && !traffic) return std::nullopt;
  const auto late = room.bytes <= 0 ? sent_.end() : Latest(now, traffic);
  auto stripe = stripes_.end();
  if (late != sent_.end()) stripe = StripeFor(now, late->second.chunk.traffic, late->second.stripe);
  const bool repeats = stripe != stripes_.end();
  if (!repeats && !traffic) return std::nullopt;
  if (!repeats) stripe = StripeFor(now, *traffic);
  if (stripe == stripes_.end()) {
    limit_ = std::max(limit_, Limit::kConnections);
    return std::nullopt;
  }
  const int64_t takes = stripe->second.TakesBytes(window().BurstBytes());
  const int64_t chunk_bytes = window().ChunkBytes();
  const int64_t most = std::min({takes, chunk_bytes, turn_bytes_.value_or(chunk_bytes)});
  const auto chunk = repeats ? std::optional(late->second.chunk) : NextChunk(*traffic, most);
  if (!chunk) return std::nullopt;
  if (repeats) GiveUp(late);
  Space(now, *chunk, room.line);
  const uint64_t serial = next_serial_++;
  Transmission out{stripe->first, Assemble(*chunk, serial), serial};
  stripe->second.OnPut(now, chunk->bytes);
  under_way_bytes_ += chunk->bytes;
  sent_[serial] = {*chunk, stripe->first, now};
  return out;
}

// Over an almost empty line for a round trip at its own rate: nothing comes back yet that would
// space chunks, and what is more would only stand before it.
void BulkSender::Space(Instant now, const Chunk& chunk, int64_t line_room) {
  const bool starts = window().is_starting(),
             is_urgent = chunk.traffic == TrafficClass::kActivation;
  if (starts && is_urgent) return;
  // A near line's window is a chunk or two, which cannot be spaced.
  const bool is_near = window().round_trip().value_or(Duration()) < kNearRoundTrip;
  const int64_t bytes = window_.bytes() + (is_near ? 2 * window().ChunkBytes() : 0);
  if (!starts && !refills_from_ && line_room > bytes / 2) refills_from_ = next_serial_;
  const double times = refills_from_ && !is_urgent && !is_near ? 1 : kPaceOfWindow;
  pace_.OnSent(now, chunk.bytes, times * static_cast<double>(bytes), window().smoothed());
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
  Bytes bytes = short_chunks_ ? EncodeShort(header) : EncodeLink(header);
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
  if (stripe != stripes_.end()) stripe->second.OnFreed(sent.chunk.bytes);
}

void BulkSender::TakeBack(uint64_t serial) {
  const auto sent = sent_.find(serial);
  if (sent == sent_.end()) return;
  Free(sent->second);
  again_[At(sent->second.chunk.traffic)].push_front(sent->second.chunk);
  sent_.erase(sent);
}

std::map<uint64_t, BulkSender::Sent>::iterator BulkSender::GiveUp(
    std::map<uint64_t, Sent>::iterator at) {
  Free(at->second);
  given_up_[at->first] = at->second.chunk;
  if (given_up_.size() > kGivenUpMax) given_up_.erase(given_up_.begin());
  return sent_.erase(at);
}

void BulkSender::Requeue(StripeId stripe) {
  for (auto at = sent_.begin(); at != sent_.end();) {
    if (at->second.stripe != stripe) {
      ++at;
      continue;
    }
    again_[At(at->second.chunk.traffic)].push_back(at->second.chunk);
    at = GiveUp(at);
  }
}

// ---- what comes back ---------------------------------------------------------------------------

void BulkSender::Acknowledge(Instant now, uint64_t serial) {
  Chunk chunk;
  if (const auto sent = sent_.find(serial); sent != sent_.end()) {
    chunk = sent->second.chunk;
    if (refills_from_ && serial >= *refills_from_) refills_from_.reset();
    newest_come_ = std::max(newest_come_, sent->second.at);
    window_.OnChunk(now - sent->second.at);
    Free(sent->second);
    if (const auto stripe = stripes_.find(sent->second.stripe); stripe != stripes_.end())
      stripe->second.OnHeard(now);
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
  const int64_t in_line = InLine();
  for (const uint64_t serial : acks.serials) Acknowledge(now, serial);
  // By this side's count of what has arrived: the peer may have begun to count anew.
  const int64_t room =
      std::clamp<int64_t>(acks.credit_bytes - acks.received_bytes, 0, BulkReceiver::kCreditBytes);
  credit_bytes_ = std::max(credit_bytes_, arrived_bytes_ + room);
  const int64_t received = std::min(acks.received_bytes, new_bytes_);
  window_.OnDelivered(now, received, Instant::FromNanos(acks.at_nanos), limit_, in_line);
  carried_.OnDelivered(received, Instant::FromNanos(acks.at_nanos));
  if (transfers_.empty()) {
    window_.OnIdle(now);
    carried_.OnIdle();
  }
  held_rounds_ = window().IsHeldByTcp() ? held_rounds_ + 1 : 0;
  if (held_rounds_ < kHeldRounds) return;
  held_rounds_ = 0;
  grown_ = std::min<uint16_t>(static_cast<uint16_t>(grown_ + 1), kSignalStripe - 1);
}

void BulkSender::OnReading(Instant now, StripeId stripe, std::optional<ConnectionReading> reading) {
  const auto at = stripes_.find(stripe);
  if (at != stripes_.end()) at->second.OnReading(now, reading);
}

int64_t BulkSender::InLine() const {
  int64_t bytes = 0;
  for (const auto& [id, stripe] : stripes_) bytes += stripe.InLine();
  return bytes;
}

}  // namespace skerry
