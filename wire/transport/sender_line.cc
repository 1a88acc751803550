#include "wire/transport/sender_line.h"

#include <algorithm>
#include <utility>

#include "wire/transport/window.h"

namespace skerry {
namespace {

constexpr int64_t kUrgentPart = 4;  // of the bound, that what is urgent may go beyond it

Duration Mean(Duration sum, int count) {
  return count == 0 ? Duration() : Duration::Nanos(sum.nanos() / count);
}

}  // namespace

// ---- the common queue --------------------------------------------------------------------------

void SenderLine::OnProbe(Instant now, uint64_t pair, const Reading& reading) {
  if (!shares_ || reading.sent < since_ || reading.round_trip < kNear) return;
  if (!began_) {
    began_ = now;
    queues_ = Quickest();
    round_trips_ = Duration();
    now_ = Round();
  }
  queues_.Add(reading.queue);
  for (Met* met : {&now_.all, &now_.of[pair]}) {
    met->queues = met->queues + reading.queue;
    ++met->probes;
  }
  round_trips_ = round_trips_ + reading.round_trip;
  const Duration took = now - *began_;
  const Duration round = std::max(Mean(round_trips_, now_.all.probes), QueueFollower::kRoundLeast);
  const bool has_enough =
      HasAll() && now_.all.probes >= QueueFollower::kProbesPerRound && took >= round;
  if (has_enough || took > kAloneAfter) EndRound();
}

// Of one that is not alone the queue may be its own.
bool SenderLine::HasAll() const {
  return now_.of.size() > 1 || far_ < 2;
}

void SenderLine::EndRound() {
  const Duration queue = queues_.Usual(now_.all.probes);
  const int64_t used = std::max(most_in_line_, most_before_);
  if (HasAll() && used > 0) Follow(queue, Mean(round_trips_, now_.all.probes), used);
  has_told_ = true;
  before_ = std::exchange(now_, Round());
  most_before_ = std::exchange(most_in_line_, 0);
  holds_back_ = false;
  began_.reset();
}

void SenderLine::Follow(Duration queue, Duration round_trip, int64_t used) {
  // A chunk is indivisible: most of one is no queue. The line carries in that time what it holds.
  const double chunks =
      static_cast<double>(CongestionWindow::kChunkLeast) / static_cast<double>(used);
  const Duration chunk = Duration::Seconds((round_trip + queue).seconds() * chunks);
  const Duration target = std::max(kTargetQueue, chunk * 3 / 4);
  const QueueFollower::Round round{queue, target, round_trip};
  const std::optional<double> change = follower_.Change(round);
  if (!change) return;
  if (queue > target) {
    // What overfilled the line at the start says, with its queue, what fills it.
    const double shrink = std::exchange(starting_, false) ? round.Excess() : -*change;
    const auto in_use = static_cast<double>(std::min(*bound_, used));
    bound_ = std::max(kLeastBytes, static_cast<int64_t>(in_use * (1 - shrink)));
  } else if (holds_back_) {
    const bool doubles = starting_ && follower_.empty_rounds() > 0;
    if (doubles) follower_.Wait();
    const double bound = static_cast<double>(*bound_) * (1 + (doubles ? 1 : *change));
    bound_ = std::min(static_cast<int64_t>(bound), CongestionWindow::kMostBytes);
  }
}

Duration SenderLine::Round::OfOthers(uint64_t pair) const {
  Met others = all;
  if (const auto own = of.find(pair); own != of.end()) {
    others.queues = others.queues - own->second.queues;
    others.probes -= own->second.probes;
  }
  return Mean(others.queues, others.probes);
}

SenderLine::Common SenderLine::CommonQueue(uint64_t pair) const {
  const auto chunk = shares_ ? std::optional(chunk_) : std::nullopt;
  if (!has_told_) return {since_, std::nullopt, chunk};
  // A queue that has just become long is not the pair's own because the last round's was short.
  return {since_, std::max(before_.OfOthers(pair), now_.OfOthers(pair)), chunk};
}

// ---- whose turn it is --------------------------------------------------------------------------

void SenderLine::BeginTurns(Instant now, std::span<const Pair> pairs) {
  for (Turns* turns : {&near_, &urgent_, &rest_}) {
    turns->who.clear();
    turns->again.clear();
    turns->at = 0;
  }
  in_line_ = 0;
  far_ = 0;
  const bool has_urgent = std::ranges::any_of(pairs, [](const Pair& p) { return p.is_urgent; });
  int64_t longest = 0, chunks = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    const bool is_urgent = pair.is_urgent || (pair.measures && has_urgent);
    (pair.is_near ? near_ : is_urgent ? urgent_ : rest_).who.push_back(i);
    if (pair.is_near) continue;
    if (pair.is_lost) continue;
    ++far_;
    in_line_ += pair.in_line;
    longest = std::max(longest, pair.window);
    chunks += pair.chunk;
  }
  if (rest_.who.empty()) owed_ = 0;
  for (Turns* turns : {&near_, &urgent_, &rest_})
    std::ranges::rotate(turns->who, std::ranges::lower_bound(turns->who, turns->next));
  most_in_line_ = std::max(most_in_line_, in_line_);
  if (far_ > 0) chunk_ = chunks / static_cast<int64_t>(far_);
  if (far_ > 1) several_at_ = now;
  const bool shares = far_ > 1 || (shares_ && now - several_at_ < kAloneAfter);
  if (shares_ == shares) return;
  shares_ = shares;
  if (!bound_) bound_ = std::max(longest, kLeastBytes);
  since_ = now;
  began_.reset();
  has_told_ = !shares_;
  now_ = before_ = Round();
}

int64_t SenderLine::SendNext(Turns& turns, absl::FunctionRef<int64_t(size_t)> send) {
  while (!turns.IsOver()) {
    if (turns.at == turns.who.size()) {
      turns.who.swap(turns.again);
      turns.again.clear();
      turns.at = 0;
    }
    const size_t pair = turns.who[turns.at++];
    turns.next = pair + 1;
    if (const int64_t bytes = send(pair); bytes > 0) {
      turns.again.push_back(pair);
      return bytes;
    }
  }
  return 0;
}

bool SenderLine::HasRoom(int64_t beyond) {
  const bool has_room = !shares_ || in_line_ < *bound_ + beyond;
  holds_back_ = holds_back_ || !has_room;
  return has_room;
}

bool SenderLine::SendUrgent(std::span<const Pair> pairs, SendOne send) {
  if (urgent_.IsOver() || !HasRoom(bound_.value_or(0) / kUrgentPart)) return false;
  const int64_t bytes = SendNext(urgent_, [&](size_t i) {
    if (!pairs[i].is_urgent) return send(i, What::kAnything);
    const int64_t sent = send(i, What::kActivations);
    if (sent == 0) rest_.again.push_back(i);  // with what else it has
    return sent;
  });
  in_line_ += bytes;
  owed_ = std::min(owed_ + bytes / (kRestShare - 1), CongestionWindow::kChunkMost);
  return bytes > 0;
}

bool SenderLine::SendRest(SendOne send) {
  const int64_t bytes = SendNext(rest_, [&](size_t i) { return send(i, What::kAnything); });
  in_line_ += bytes;
  owed_ = std::max<int64_t>(owed_ - bytes, 0);
  return bytes > 0;
}

void SenderLine::Share(Instant now, std::span<const Pair> pairs, SendOne send) {
  BeginTurns(now, pairs);
  while (SendNext(near_, [&](size_t i) { return send(i, What::kAnything); }) > 0) {
  }
  for (;;) {
    if (owed_ >= CongestionWindow::kChunkLeast && SendRest(send)) continue;
    if (SendUrgent(pairs, send)) continue;
    if (rest_.IsOver() || !HasRoom(0) || !SendRest(send)) break;
  }
  most_in_line_ = std::max(most_in_line_, in_line_);
}

}  // namespace skerry
