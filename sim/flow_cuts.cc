// Partitions: what TCP does with a path that swallows everything, and with a peer that is gone.
#include <algorithm>
#include <cmath>

#include "sim/flow_delay.h"
#include "sim/flow_network.h"

namespace skerry {
namespace {

const Duration kTimeoutMax = Duration::Seconds(120);

}  // namespace

bool FlowNetwork::IsCut(int32_t from, int32_t to) const {
  if (map_.IsBridged(from, to)) return IsCut(from, 0) || IsCut(0, to);
  if (cut_nodes_.contains({from, to})) return true;
  const auto& site = map_.spec().site_of_node;
  if (site[static_cast<size_t>(from)] == site[static_cast<size_t>(to)]) return false;
  return cut_regions_.contains({map_.region_of(from), map_.region_of(to)});
}

void FlowNetwork::Cut(Instant now, int32_t from, int32_t to, bool cut) {
  if (cut) {
    cut_nodes_.insert({from, to});
  } else {
    cut_nodes_.erase({from, to});
  }
  RefreshCuts(now);
}

void FlowNetwork::CutRegion(Instant now, int32_t from_region, int32_t to_region, bool cut) {
  if (cut) {
    cut_regions_.insert({from_region, to_region});
  } else {
    cut_regions_.erase({from_region, to_region});
  }
  RefreshCuts(now);
}

void FlowNetwork::Bridge(Instant now, int32_t a, int32_t b, bool bridged) {
  map_.Bridge(a, b, bridged);
  ++map_version_;
  RefreshCuts(now);
}

void FlowNetwork::RefreshCuts(Instant now) {
  now_ = std::max(now_, now);
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& c = connections_[i];
    const bool there = IsCut(c.from, c.to), back = IsCut(c.to, c.from);
    const bool was_cut = c.cut_there || c.cut_back;
    c.cut_there = there;
    c.cut_back = back;
    const auto connection = static_cast<int32_t>(i);
    if ((there || back) && !was_cut) Stall(now, connection);
    if (!there && !back && was_cut) Heal(now, connection);
  }
}

// What has not left the sender waits; what is under way joins it when it would have arrived.
void FlowNetwork::Stall(Instant now, int32_t connection) {
  Connection& c = At(connection);
  c.past_cut = 0;
  const bool waits_already = !c.returned.empty() || !c.waiting.empty();
  if (c.stream) {
    Stream& s = *c.stream;
    if (s.flow >= 0) Settle(now, c);
    for (Queued& message : s.queue) {
      const double left = std::min(static_cast<double>(message.bytes), message.end - s.sent);
      message.begun |= left < static_cast<double>(message.bytes);
      message.bytes = std::max<int64_t>(1, std::llround(left));
      c.waiting.push_back(message);
    }
    EndFlow(c);
  }
  if (waits_already) {
    BeginStall(now, connection, c.stalled_since);
  } else if (!c.waiting.empty()) {
    BeginStall(now, connection, now);
  }
}

void FlowNetwork::BeginStall(Instant now, int32_t connection, Instant since) {
  Connection& c = At(connection);
  c.stalled_since = since;
  Push(std::max(now, since + options_.drop_after), kStall, connection, 0, ++c.stall);
}

void FlowNetwork::Wait(Instant now, int32_t connection, const Queued& message, bool was_under_way) {
  Connection& c = At(connection);
  if (c.returned.empty() && c.waiting.empty()) BeginStall(now, connection, now);
  (was_under_way ? c.returned : c.waiting).push_back(message);
}

void FlowNetwork::Heal(Instant now, int32_t connection) {
  Connection& c = At(connection);
  c.past_cut = 0;
  if (c.returned.empty() && c.waiting.empty()) return;
  Duration timeout = RetransmissionTimeout(c.route.round_trip);
  Instant again = c.stalled_since + timeout;
  while (again < now) {
    timeout = std::min(timeout * 2, kTimeoutMax);
    again = again + timeout;
  }
  Push(again, kStall, connection, 0, ++c.stall);
}

// Either the time after which a connection breaks, or a repetition that gets through.
void FlowNetwork::OnStall(Instant now, int32_t connection) {
  Connection& c = At(connection);
  if (c.cut_there || c.cut_back) {
    Break(now, c);
    return;
  }
  ++c.stall;
  c.window.Restart();
  c.free = std::max(c.free, now);
  std::vector<Queued> messages;
  messages.swap(c.returned);
  messages.insert(messages.end(), c.waiting.begin(), c.waiting.end());
  c.waiting.clear();
  for (const Queued& message : messages) Append(now, connection, message);
}

void FlowNetwork::Break(Instant now, Connection& c) {
  for (const auto* list : {&c.returned, &c.waiting}) {
    for (const Queued& message : *list) lost_.push_back({message.tag, true, !message.begun});
  }
  c.returned.clear();
  c.waiting.clear();
  ++c.stall;
  if (c.stream) {
    if (c.stream->flow >= 0) Settle(now, c);
    for (const Queued& message : c.stream->queue) {
      const bool begun =
          message.begun || message.end - static_cast<double>(message.bytes) < c.stream->sent;
      lost_.push_back({message.tag, true, !begun});
    }
    EndFlow(c);
  }
  c.window = FlowWindow(map_.spec().congestion_control, map_.spec().window_bytes_max);
  c.established = options_.handshake_round_trips <= 0;
  c.round_sent = c.past_cut = 0;
  c.round_counted = true;
}

void FlowNetwork::DropNode(Instant now, int32_t node) {
  now_ = std::max(now_, now);
  for (Connection& c : connections_) {
    if (c.from == node || c.to == node) Break(now, c);
  }
}

}  // namespace skerry
