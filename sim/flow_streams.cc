// Streams: what does not fit a single event. A stream wakes when a message has left the sender and
// when a round ends that the window cares about; in between its rate is constant.
#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "sim/flow_network.h"
#include "sim/flow_window.h"

namespace skerry {
namespace {

constexpr double kBurstSlack = 3 * kSegmentBytes;
constexpr double kLessThanAByte = 0.5;
constexpr double kSilentRoundsMax = 8;
constexpr double kFirstRepaired = 3;  // segments
constexpr int kRepairRounds = 3;      // one that loses, one to notice, one to repair

size_t Index(int32_t number) {
  return static_cast<size_t>(number);
}

Duration TimeFor(double bytes, int64_t rate) {
  return Duration::Nanos(
      static_cast<int64_t>(std::ceil(std::max(bytes, 0.0) / static_cast<double>(rate) * 1e9)));
}

}  // namespace

void FlowNetwork::RenewRound(Connection& c, Instant start) {
  const Duration rtt = c.route.round_trip;
  if (start < c.round_start + rtt) return;
  if (!c.round_counted) c.window.OnRound(rtt, c.round_sent, 0, c.rng);
  c.round_counted = true;
  c.round_start = start;
  c.round_sent = 0;
}

void FlowNetwork::Append(Instant now, int32_t connection, const Queued& message) {
  Connection& c = At(connection);
  const bool is_new = c.stream == nullptr;
  if (is_new) c.stream = std::make_unique<Stream>();
  Stream& s = *c.stream;
  if (!is_new && s.flow >= 0) Settle(now, c);
  PutInLine(s, message);
  if (is_new) {
    s.next = std::max(now, c.free);
    if (s.next > now) {
      Schedule(now, connection);
    } else {
      StartStream(now, connection);
    }
    return;
  }
  if (s.flow < 0) return;
  if (s.queue.front().tag == message.tag) TouchSender(c);
  if (now >= s.round_start + s.round && s.all_fits) {
    CountRound(c);
    BeginRound(now, connection);
  } else if (s.all_fits && s.round_sent + s.total - s.sent > c.window.bytes()) {
    s.all_fits = false;
    SetWindowCap(connection);
  } else if (s.queue.front().tag == message.tag) {
    Schedule(now, connection);
  }
}

// Before all that is less urgent. What is left of one that is under way goes on after it.
void FlowNetwork::PutInLine(Stream& s, Queued message) {
  const auto bytes = static_cast<double>(message.bytes);
  auto later = std::find_if(s.queue.begin(), s.queue.end(), [&](const Queued& other) {
    return other.rank > message.rank && other.end > s.sent + kLessThanAByte;
  });
  const double begin = later == s.queue.begin() ? s.sent : std::prev(later)->end;
  if (later == s.queue.begin() && later != s.queue.end()) {
    const double left = later->end - s.sent;
    later->begun |= left < static_cast<double>(later->bytes);
    later->bytes = std::max<int64_t>(1, std::llround(left));
  }
  message.end = begin + bytes;
  s.total += bytes;
  for (auto it = s.queue.insert(later, message) + 1; it != s.queue.end(); ++it) it->end += bytes;
}

// The first of a queue counts as begun.
bool FlowNetwork::Withdraw(int32_t connection, uint64_t tag) {
  Connection& c = At(connection);
  const auto has_tag = [&](const Queued& message) { return message.tag == tag; };
  if (!c.waiting.empty()) {
    const auto it = std::find_if(c.waiting.begin() + 1, c.waiting.end(), has_tag);
    if (it == c.waiting.end() || it->begun) return false;
    c.waiting.erase(it);
    return true;
  }
  if (!c.stream || c.stream->queue.empty()) return false;
  auto& queue = c.stream->queue;
  auto it = std::find_if(queue.begin() + 1, queue.end(), has_tag);
  if (it == queue.end() || it->begun) return false;
  const auto bytes = static_cast<double>(it->bytes);
  for (it = queue.erase(it); it != queue.end(); ++it) it->end -= bytes;
  c.stream->total -= bytes;
  return true;
}

void FlowNetwork::StartStream(Instant now, int32_t connection) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  s.updated = now;
  AddFlow(connection);
  ++streams_;
  streams_of_[Index(c.from)].push_back(connection);
  TouchSender(c);
  RenewRound(c, now);
  if (now >= c.free + c.route.round_trip) BurstFromIdle(c);
  if (c.round_sent > 0 && c.round_sent + s.total <= c.window.bytes()) {
    s.round_start = c.round_start;
    s.round_sent = c.round_sent;
    s.round = c.route.round_trip;
    s.all_fits = true;
    SetWindowCap(connection);
  } else {
    BeginRound(now, connection);
  }
}

int64_t FlowNetwork::Narrowest(const Connection& c) const {
  int64_t rate = c.route.flow_cap;
  for (size_t i = 0; i < Index(c.route.link_count); ++i)
    rate = std::min(rate, links_[Index(c.route.links[i])].capacity);
  return rate;
}

void FlowNetwork::BurstFromIdle(Connection& c) {
  Stream& s = *c.stream;
  const int64_t rate = Narrowest(c);
  if (rate == MaxMin::kUnlimited) return;
  const double room = static_cast<double>(rate) * map_.spec().queue.seconds();
  const double burst = std::min(s.total, c.window.bytes()) * c.window.BurstShare();
  if (burst <= room + kBurstSlack) return;
  s.held_rounds = kRepairRounds;
  s.held_bytes = std::max(room, kSegmentBytes);
  // What follows tells of the loss, and each packet of it that arrives brings out one of the lost:
  // with few of them the repair is a slow start of its own (RFC 6937). Where no more follows than
  // the queue holds, the line is idle for a round trip of the repair. Of a paced burst the queue
  // takes some to the end, and those tell.
  const double after = std::max(s.total - c.window.bytes(), 0.0);
  const bool paced = c.window.PacingGain() > 0;
  double silent_rounds = after <= (paced ? 0 : room) ? 1 : 0;
  if (!paced) {
    const double first = kFirstRepaired * kSegmentBytes + after;
    silent_rounds = std::clamp(std::log2((burst - room) / first), silent_rounds, kSilentRoundsMax);
  }
  s.silence = Duration::Seconds(silent_rounds * c.route.round_trip.seconds());
  c.window.OnBurstLost();
}

void FlowNetwork::BeginRound(Instant now, int32_t connection) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  s.round_start = now;
  s.round_sent = 0;
  if (s.held_rounds == 0) s.held_bytes = 0;
  s.held_rounds = std::max(s.held_rounds - 1, 0);
  s.all_fits = s.held_bytes == 0 && s.total - s.sent <= c.window.bytes();
  const double stretch = s.all_fits ? 1 : c.window.Stretch(c.route.loss, c.rng);
  s.round = Duration::Seconds(stretch * c.route.round_trip.seconds()) + s.silence;
  s.silence = Duration();
  // Linux wakes a waiting sender when a third of its buffer is free.
  if (const int64_t rate = Narrowest(c);
      !s.all_fits && !c.window.MayGrow() && s.held_bytes == 0 && rate != MaxMin::kUnlimited) {
    s.round += TimeFor(c.window.bytes() / 3, rate);
  }
  SetWindowCap(connection);
}

void FlowNetwork::SetWindowCap(int32_t connection) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  s.window_cap = MaxMin::kUnlimited;
  double per_round = s.all_fits ? c.window.PacingGain() * c.window.bytes() : c.window.bytes();
  if (s.held_bytes > 0) per_round = std::min(per_round, s.held_bytes);
  if (per_round > 0 && s.round > Duration())
    s.window_cap = std::max<int64_t>(1, std::llround(per_round / s.round.seconds()));
  rates_.SetCap(s.flow, std::min(s.window_cap, c.route.flow_cap));
  rates_dirty_ = true;
  capped_.push_back(connection);
}

void FlowNetwork::Settle(Instant now, Connection& c) {
  Stream& s = *c.stream;
  const double passed = static_cast<double>(s.rate) * (now - s.updated).seconds();
  const double sent = std::min(passed, s.total - s.sent);
  s.sent += sent;
  s.round_sent += sent;
  s.updated = now;
  Count(c, sent);
}

// A round has ended, as far as the window is concerned.
void FlowNetwork::CountRound(Connection& c) {
  Stream& s = *c.stream;
  c.window.OnRound(s.round, s.round_sent, c.route.loss, c.rng);
  if (s.all_fits || s.yielding > 0) return;  // it comes back to the window that it had
  const double room = RoomOf(c);
  if (c.window.Overshoots(s.round_sent, room)) {
    s.held_rounds = 1;
    s.held_bytes = c.window.LeftInBuffer(room);
  }
  if (s.rate >= s.window_cap) {
    if (!c.window.MayGrow()) c.window.OnFullRounds(s.round_sent / c.window.bytes());
    return;
  }
  const auto rate = static_cast<double>(s.rate);
  const double round_trip = c.route.round_trip.seconds();
  if (s.rate == 0) return;
  const double at_line_s = s.round_sent / rate;
  c.window.OnFullRounds(at_line_s / round_trip);
  const bool has_grown = c.window.FeelsLoss(c.route.loss);  // round by round
  c.window.Settle(rate * round_trip, room, Duration::Seconds(has_grown ? 0 : at_line_s));
}

void FlowNetwork::EndStream(Instant now, Connection& c) {
  Stream& s = *c.stream;
  CountRound(c);
  const bool in_round = now < s.round_start + c.route.round_trip;
  c.round_start = in_round ? s.round_start : now;
  c.round_sent = in_round ? s.round_sent : 0;
  c.round_counted = true;
  c.free = now;
  EndFlow(c);
}

void FlowNetwork::EndFlow(Connection& c) {
  if (c.stream->flow >= 0) {
    std::erase(streams_of_[Index(c.from)], flow_owner_[Index(c.stream->flow)]);
    rates_.RemoveFlow(c.stream->flow);
    TouchSender(c);
    --streams_;
  }
  ++c.generation;
  c.stream.reset();
}

// What the line holds of this stream, its share of the queue included.
double FlowNetwork::RoomOf(const Connection& c) const {
  const Stream& s = *c.stream;
  const int64_t rate = s.rate < s.window_cap ? s.rate : Narrowest(c);
  return static_cast<double>(rate) * (c.route.round_trip + map_.spec().queue).seconds();
}

// Every round has to be counted, whether or not it can grow the window.
bool FlowNetwork::Counts(const Connection& c) const {
  return c.window.FeelsLoss(c.route.loss) || c.stream->held_bytes > 0 ||
         c.window.MayOvershoot(RoomOf(c));
}

// When the stream needs attention next, at its present rate.
Instant FlowNetwork::NextOf(Instant now, const Connection& c) const {
  const Stream& s = *c.stream;
  const Instant message = now + TimeFor(s.queue.front().end - s.sent, s.rate);
  if (s.all_fits) return message;
  const bool limited = s.rate >= s.window_cap;
  const bool counts = Counts(c);
  if (counts || (limited && c.window.MayGrow()))
    return std::max(now, std::min(message, s.round_start + s.round));
  if (!limited) return message;
  // Full windows follow each other, one a round trip, until what is left is less than one.
  const Duration until = now + TimeFor(s.total - s.sent - c.window.bytes(), s.rate) - s.round_start;
  const int64_t rounds = (until.nanos() + s.round.nanos() - 1) / s.round.nanos();
  return std::max(now, std::min(message, s.round_start + s.round * std::max<int64_t>(rounds, 1)));
}

bool FlowNetwork::IsRoundOver(Instant now, const Connection& c) const {
  const Stream& s = *c.stream;
  if (s.all_fits || now < s.round_start + s.round) return false;
  if (Counts(c) || s.rate < s.window_cap || c.window.MayGrow()) return true;
  const bool at_end = (now - s.round_start).nanos() % s.round.nanos() == 0;
  return at_end && s.total - s.sent <= c.window.bytes() + kSegmentBytes;
}

void FlowNetwork::Schedule(Instant now, int32_t connection) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  if (s.flow >= 0) {
    if (s.rate == 0) return;  // the next UpdateRates comes back here
    s.next = NextOf(now, c);
  }
  if (s.is_queued && s.queued <= s.next) return;
  s.is_queued = true;
  s.queued = s.next;
  Push(s.next, kStream, connection, 0, ++c.generation);
}

void FlowNetwork::OnStream(Instant now, int32_t connection) {
  Connection& c = At(connection);
  Stream& s = *c.stream;
  s.is_queued = false;
  if (s.flow < 0) {
    StartStream(now, connection);
    return;
  }
  Settle(now, c);
  if (now < s.next) {
    Schedule(now, connection);
    return;
  }
  const uint8_t rank = s.queue.front().rank;
  while (!s.queue.empty() && s.queue.front().end <= s.sent + kLessThanAByte) {
    c.free = now;
    Arrive(connection, s.queue.front(), Duration());
    s.queue.pop_front();
  }
  if (s.queue.empty()) {
    EndStream(now, c);
    return;
  }
  if (s.queue.front().rank != rank) TouchSender(c);
  if (IsRoundOver(now, c)) {
    CountRound(c);
    BeginRound(now, connection);
    return;
  }
  Schedule(now, connection);
}

void FlowNetwork::UpdateRates(Instant now) {
  WeighSenders(now);
  rates_dirty_ = false;
  for (const int32_t flow : rates_.Update()) {
    const int32_t connection = flow_owner_[Index(flow)];
    Settle(now, At(connection));
    At(connection).stream->rate = rates_.rate(flow);
    capped_.push_back(connection);
  }
  std::sort(capped_.begin(), capped_.end());
  capped_.erase(std::unique(capped_.begin(), capped_.end()), capped_.end());
  for (const int32_t connection : capped_) {
    Connection& c = At(connection);
    if (!c.stream || c.stream->flow < 0) continue;
    Settle(now, c);
    Schedule(now, connection);
  }
  capped_.clear();
}

}  // namespace skerry
