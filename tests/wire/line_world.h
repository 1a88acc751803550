// Senders of bulk over a line in virtual time: a rate, a delay, a queue that drops nothing.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "wire/transport/bulk_receiver.h"
#include "wire/transport/bulk_sender.h"

namespace skerry {

inline constexpr double kHeaders = 1500.0 / 1448;

struct Line {
  double bytes_per_s = 12.5e6;
  Duration one_way = Duration::Millis(40);
  Instant free;

  Instant Cross(Instant now, size_t bytes) {
    const double wire_bytes = static_cast<double>(bytes) * kHeaders + 60;
    free = std::max(free, now) + Duration::Seconds(wire_bytes / bytes_per_s);
    return free + one_way;
  }
};

inline double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

// Pairs of one sending process: each has always more to send, unless it rests, and its receiver's
// answers wait behind what the receiver sends, if it does. Its clock is another one.
class World {
 public:
  struct Pair {
    BulkSender sender{1};
    BulkReceiver receiver;
    int64_t received = 0;
    TrafficClass traffic = TrafficClass::kDelta;
    bool rests = false;        // nothing more to send
    bool is_gone = false;      // its receiver, without a word
    int64_t told_more = 0;     // so many times what came its receiver says to have had besides
    std::optional<Line> then;  // crossed after the line of all
  };

  explicit World(Line line, size_t pairs = 1) : line_(line), pairs_(pairs) {
    uint64_t session = 0;
    for (Pair& pair : pairs_) {
      pair.sender = BulkSender(++session);
      for (StripeId i = 0; i < 4; ++i) pair.sender.OpenStripe(now_, i);
      pair.sender.OpenStripe(now_, kSignalStripe);
    }
  }

  void Offer(Pair& pair, TrafficClass traffic, size_t bytes) {
    OutgoingFrame frame;
    frame.traffic = traffic;
    frame.envelope = Bytes(64);
    frame.payload = bytes == 1 << 20 ? payload_ : MakePayload(Bytes(bytes, 3));
    pair.sender.Enqueue(now_, std::move(frame));
  }

  void RunUntil(Instant end) {
    while (now_ < end) Turn();
  }
  // How long an activation of this size is on its way to this pair's receiver and known to be
  // there.
  double Carry(Pair& pair, size_t bytes) {
    const Instant begin = now_;
    Offer(pair, TrafficClass::kActivation, bytes);
    while (pair.sender.Unfinished(TrafficClass::kActivation) > 0) Turn();
    return (now_ - begin).seconds();
  }

  double Goodput(Duration over) {
    const int64_t before = first().received;
    const Instant begin = now_;
    RunUntil(now_ + over);
    return static_cast<double>(first().received - before) / (now_ - begin).seconds();
  }
  Line& line() { return line_; }
  std::vector<Pair>& pairs() { return pairs_; }
  Pair& first() { return pairs_.front(); }
  Pair& second() { return pairs_.at(1); }
  Duration queue_back;
  Duration bunch;  // answers come at its multiples only
  double clock_rate = 1;
  bool shares = true;  // as Transport::FlushBulk does
  const SenderLine& sender_line() const { return sender_line_; }
  const CongestionWindow& window() const { return pairs_.front().sender.window(); }
  Instant now() const { return now_; }
  Duration Queue() const { return std::max(line_.free - now_, Duration()); }
  std::vector<double> queues;  // at every arrival, seconds

 private:
  struct Event {
    Pair* pair;
    Bytes bytes;
  };

  void Turn() {
    for (Pair& pair : pairs_) {
      while (!pair.rests && pair.sender.Unfinished(pair.traffic) < 4)
        Offer(pair, pair.traffic, 1 << 20);
      pair.sender.Tick(now_);
      pair.sender.BeginTurn(now_,
                            sender_line_.CommonQueue(static_cast<uint64_t>(&pair - pairs_.data())));
      if (const auto probe = pair.sender.ProbeDue(now_))
        events_.emplace(Cross(pair, 100), Event{&pair, EncodeLink(*probe)});
    }
    std::vector<Pair*> active;
    std::vector<SenderLine::Pair> pairs;
    for (Pair& pair : pairs_) {
      if (!shares)
        while (Send(pair) > 0) {
        }
      if (pair.sender.IsIdle()) continue;
      active.push_back(&pair);
      pairs.push_back(pair.sender.InSenderLine(now_));
    }
    if (shares) {
      sender_line_.Share(now_, pairs,
                         [&](size_t i, SenderLine::What what) { return Send(*active[i], what); });
    }
    Advance();
  }
  int64_t Send(Pair& pair, SenderLine::What what = SenderLine::What::kAnything) {
    auto next = pair.sender.Next(now_, what);
    if (!next) return 0;
    const auto bytes = static_cast<int64_t>(next->bytes.size());
    const Instant at = Cross(pair, next->bytes.size());
    events_.emplace(at, Event{&pair, std::move(next->bytes)});
    return bytes;
  }
  Instant Cross(Pair& pair, size_t bytes) {
    const Instant at = line_.Cross(now_, bytes);
    return pair.then ? pair.then->Cross(at, bytes) : at;
  }
  Instant Back() const {
    const Duration at = now_ - Instant() + line_.one_way + queue_back;
    if (bunch == Duration()) return Instant() + at;
    return Instant() + bunch * (at.nanos() / bunch.nanos() + 1);
  }
  std::optional<Instant> Due() const {
    std::optional<Instant> due;
    for (const Pair& pair : pairs_) {
      const auto next = pair.sender.NextDue();
      if (next && (!due || *next < *due)) due = next;
    }
    return due;
  }
  void Advance() {
    const auto due = Due();
    if (events_.empty() || (due && *due < events_.begin()->first)) {
      now_ = std::max(now_ + Duration::Micros(10), due.value_or(now_));
      return;
    }
    now_ = std::max(now_, events_.begin()->first);
    queues.push_back(Queue().seconds());
    const Event event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    Pair& pair = *event.pair;
    if (pair.is_gone) return;
    const auto message = DecodeLink(event.bytes);
    if (const auto* chunk = std::get_if<DecodedChunk>(&*message)) {
      std::optional<BulkReceiver::Arrived> arrived;
      REQUIRE(pair.receiver.Take(*chunk, 0, arrived) != BulkReceiver::Verdict::kRefused);
      pair.received += static_cast<int64_t>(chunk->bytes.size());
      while (auto acks = pair.receiver.TakeAcks(now_)) {
        acks->message.received_bytes += pair.received * pair.told_more;
        events_.emplace(Back(), Event{&pair, EncodeLink(acks->message)});
      }
    } else if (const auto* acks = std::get_if<AcksMessage>(&*message)) {
      pair.sender.OnAcks(now_, *acks);
    } else if (const auto* probe = std::get_if<ProbeMessage>(&*message)) {
      if (probe->is_echo) {
        const auto reading = pair.sender.OnEcho(now_, *probe);
        if (reading && shares)
          sender_line_.OnProbe(now_, static_cast<uint64_t>(&pair - pairs_.data()), *reading);
        return;
      }
      const auto arrived =
          static_cast<int64_t>((now_ - Instant()).seconds() * clock_rate * 1e9) + 77'000'000'000;
      events_.emplace(Back(), Event{&pair, EncodeLink(EchoOf(*probe, arrived))});
    }
  }

  Line line_;
  SenderLine sender_line_;
  std::vector<Pair> pairs_;
  Payload payload_ = MakePayload(Bytes(1 << 20, 3));
  Instant now_;
  std::multimap<Instant, Event> events_;
};

}  // namespace skerry
