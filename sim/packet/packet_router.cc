#include "sim/packet/packet_router.h"

#include <algorithm>
#include <utility>

#include "sim/flow_delay.h"
#include "sim/flow_window.h"

namespace skerry {

PacketRouter::PacketRouter(PacketPlan plan, uint64_t seed) : plan_(std::move(plan)) {
  for (const double rate : plan_.line_bytes_per_s) lines_.emplace_back(rate, plan_.queue);
  for (size_t i = 0; i < plan_.routes.size(); ++i) pairs_.emplace_back(seed, i);
  std::optional<Duration> least;
  for (const PacketRoute& route : plan_.routes) {
    for (const PacketHop& hop : route.hops) {
      if (hop.lossy) least = std::min(least.value_or(hop.delay), hop.delay);
    }
  }
  near_slack_ = least.value_or(Duration()) / 2;
}

PacketRouter::Pair& PacketRouter::PairOf(const PacketPiece& piece) {
  return pairs_[static_cast<size_t>(piece.from) * static_cast<size_t>(plan_.nodes) +
                static_cast<size_t>(piece.to)];
}

void PacketRouter::Push(Instant at, size_t hop, PacketPiece piece) {
  const std::vector<PacketHop>& hops = plan_.Route(piece.from, piece.to).hops;
  const bool passed_delay = hop > 0 && hops[hop - 1].lossy;
  Heap& heap = heaps_[hop == hops.size() ? kOut : passed_delay ? kFar : kNear];
  heap.push_back({at, ++sequence_, hop, std::move(piece)});
  std::push_heap(heap.begin(), heap.end());
}

PacketRouter::Event PacketRouter::Pop(Side side) {
  Heap& heap = heaps_[side];
  std::pop_heap(heap.begin(), heap.end());
  Event event = std::move(heap.back());
  heap.pop_back();
  return event;
}

void PacketRouter::Enter(Instant now, int32_t from, Packet packet) {
  const auto shape = ShapeOf(packet);
  const int32_t to = shape ? PacketNode(shape->destination, plan_.nodes) : -1;
  if (to < 0 || to == from) {
    ++counters_.not_ours;
    return;
  }
  counters_.segments += shape->segments;
  const double slowest = plan_.Route(from, to).slowest_bytes_per_s;
  const double piece_bytes = kPieceTime.seconds() * slowest;
  const auto fit = static_cast<int32_t>(
      piece_bytes / static_cast<double>(std::max<int64_t>(1, shape->SegmentBytes(0))));
  const int32_t at_once = slowest > 0 ? std::max(1, fit) : shape->segments;
  const auto shared = std::make_shared<const Packet>(std::move(packet));
  for (int32_t first = 0; first < shape->segments; first += at_once) {
    const int32_t count = std::min(at_once, shape->segments - first);
    Push(now, 0, {shared, *shape, first, count, from, to, {now, now}});
  }
}

std::optional<Instant> PacketRouter::NextDue() const {
  std::optional<Instant> next;
  for (size_t side = 0; side < kSides; ++side) {
    if (heaps_[side].empty()) continue;
    const Instant at = heaps_[side].front().at + (side == kNear ? near_slack_ : Duration());
    next = std::min(next.value_or(at), at);
  }
  return next;
}

void PacketRouter::Advance(Instant now, std::vector<PacketPiece>& due) {
  const auto is_due = [&](Side side) {
    return !heaps_[side].empty() && heaps_[side].front().at <= now;
  };
  while (is_due(kNear)) Cross(Pop(kNear));
  while (is_due(kFar)) Cross(Pop(kFar));
  while (is_due(kOut)) {
    PacketPiece piece = Pop(kOut).piece;
    counters_.delivered += piece.count;
    for (int32_t i = 0; i < piece.count; ++i)
      counters_.bytes += piece.shape.SegmentBytes(piece.first + i);
    due.push_back(std::move(piece));
  }
}

void PacketRouter::Cross(Event event) {
  const PacketRoute& route = plan_.Route(event.piece.from, event.piece.to);
  const PacketHop& hop = route.hops[event.hop];
  PacketPiece& piece = event.piece;
  const int32_t sent = lines_[static_cast<size_t>(hop.line)].Send(
      piece.count, piece.shape.SegmentBytes(piece.first),
      piece.shape.SegmentBytes(piece.first + piece.count - 1), piece.passage);
  counters_.dropped += piece.count - sent;
  if (sent == 0) return;
  piece.count = sent;
  if (hop.lossy) {
    Scatter(route, event.hop, std::move(piece));
  } else {
    SendOn(route, event.hop, std::move(piece));
  }
}

void PacketRouter::SendOn(const PacketRoute& route, size_t hop, PacketPiece piece) {
  const Duration delay = route.hops[hop].delay;
  piece.passage.first = piece.passage.first + delay;
  piece.passage.last = piece.passage.last + delay;
  // A line sees the first segment as soon as it is there; a node only whole pieces.
  const bool arrives = hop + 1 == route.hops.size();
  const Instant at = arrives ? piece.passage.last : piece.passage.first;
  Push(at, hop + 1, std::move(piece));
}

// What random loss leaves of a piece goes on.
void PacketRouter::Scatter(const PacketRoute& route, size_t hop, PacketPiece piece) {
  Pair& pair = PairOf(piece);
  const Passage whole = piece.passage;
  const Duration gap =
      piece.count > 1 ? (whole.last - whole.first) / (piece.count - 1) : Duration();
  const Duration jitter = Jitter(route, pair, whole.first);
  int32_t begin = 0;
  for (int32_t i = 0; i <= piece.count; ++i) {
    const bool at_end = i == piece.count;
    if (!at_end && !IsLost(route, pair)) continue;
    if (!at_end) ++counters_.lost;
    if (i > begin) {
      PacketPiece run = piece;
      run.first = piece.first + begin;
      run.count = i - begin;
      run.passage = {whole.first + gap * begin + jitter, whole.first + gap * (i - 1) + jitter};
      run.passage.first = std::max(run.passage.first, pair.last);
      run.passage.last = pair.last = std::max(run.passage.last, pair.last);
      SendOn(route, hop, std::move(run));
    }
    begin = i + 1;
  }
}

bool PacketRouter::IsLost(const PacketRoute& route, Pair& pair) {
  if (route.loss <= 0) return false;
  if (pair.segments_to_loss < 0)
    pair.segments_to_loss = static_cast<int64_t>(DrawSegmentsToLoss(route.loss, pair.loss));
  if (--pair.segments_to_loss > 0) return false;
  pair.segments_to_loss = -1;
  return true;
}

Duration PacketRouter::Jitter(const PacketRoute& route, Pair& pair, Instant now) {
  if (route.jitter <= Duration()) return Duration();
  if (!pair.drawn || now - *pair.drawn >= kJitterTime) {
    pair.delay = DrawJitter(route.jitter, pair.jitter);
    pair.drawn = now;
  }
  return pair.delay;
}

}  // namespace skerry
