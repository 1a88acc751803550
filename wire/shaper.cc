#include "wire/shaper.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace skerry {
namespace {

Duration Occupies(int64_t bytes, double bytes_per_s) {
  if (bytes_per_s <= 0) return Duration();
  return Duration::Nanos(
      static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * 1e9 / bytes_per_s)));
}

}  // namespace

void Shaper::Enqueue(Instant now, OutgoingFrame frame) {
  // What could start before this frame came must not be overtaken by it.
  StartUntil(now);
  const auto it = lines_.find(frame.to);
  SKERRY_CHECK(it != lines_.end(), "SetLink comes before Enqueue");
  ++it->second.waiting;
  auto& queue = it->second.queues[static_cast<size_t>(frame.traffic)];
  queue.push_back({now, next_order_++, std::move(frame)});
}

bool Shaper::Withdraw(const NodeId& peer, TrafficClass traffic, uint64_t sequence) {
  const auto line = lines_.find(peer);
  if (line == lines_.end()) return false;
  auto& queue = line->second.queues[static_cast<size_t>(traffic)];
  const auto it = std::find_if(queue.begin(), queue.end(), [&](const Queued& queued) {
    return queued.frame.sequence == sequence;
  });
  if (it == queue.end()) return false;
  queue.erase(it);
  --line->second.waiting;
  return true;
}

std::optional<Shaper::Turn> Shaper::NextTurn() const {
  std::optional<Turn> best;
  for (const auto& [peer, line] : lines_) {
    for (size_t traffic = 0; traffic < kTrafficClasses; ++traffic) {
      const auto& queue = line.queues[traffic];
      if (queue.empty()) continue;
      const Instant start = std::max({queue.front().since, line.free, up_free_});
      const Turn turn{start, traffic, queue.front().order, peer};
      if (!best || turn < *best) best = turn;
    }
  }
  return best;
}

void Shaper::StartUntil(Instant now) {
  for (auto turn = NextTurn(); turn && turn->start <= now; turn = NextTurn()) {
    Line& line = lines_.at(turn->peer);
    auto& queue = line.queues[turn->traffic];
    Queued queued = std::move(queue.front());
    queue.pop_front();
    line.free = turn->start + Occupies(queued.frame.bytes(), line.shape.bytes_per_s);
    up_free_ = turn->start + Occupies(queued.frame.bytes(), up_bytes_per_s_);
    const Instant due = std::max(line.free, up_free_) + line.shape.one_way;
    travelling_.emplace(std::pair(due, queued.order), std::move(queued.frame));
  }
}

void Shaper::Advance(Instant now, std::vector<OutgoingFrame>& arrived) {
  StartUntil(now);
  while (!travelling_.empty() && travelling_.begin()->first.first <= now) {
    OutgoingFrame& frame = travelling_.begin()->second;
    --lines_.at(frame.to).waiting;
    arrived.push_back(std::move(frame));
    travelling_.erase(travelling_.begin());
  }
}

std::optional<Instant> Shaper::NextDue() const {
  std::optional<Instant> due;
  if (const auto turn = NextTurn()) due = turn->start;
  if (!travelling_.empty() && (!due || travelling_.begin()->first.first < *due))
    due = travelling_.begin()->first.first;
  return due;
}

size_t Shaper::Waiting(const NodeId& peer) const {
  const auto it = lines_.find(peer);
  return it == lines_.end() ? 0 : it->second.waiting;
}

size_t Shaper::Waiting() const {
  size_t waiting = 0;
  for (const auto& [peer, line] : lines_) waiting += line.waiting;
  return waiting;
}

std::vector<OutgoingFrame> Shaper::Forget(const NodeId& peer) {
  std::vector<OutgoingFrame> left;
  const auto line = lines_.find(peer);
  if (line == lines_.end()) return left;
  for (auto it = travelling_.begin(); it != travelling_.end();) {
    if (it->second.to == peer) {
      left.push_back(std::move(it->second));
      it = travelling_.erase(it);
    } else {
      ++it;
    }
  }
  for (auto& queue : line->second.queues) {
    for (Queued& queued : queue) left.push_back(std::move(queued.frame));
  }
  lines_.erase(line);
  return left;
}

}  // namespace skerry
