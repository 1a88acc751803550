#include "sim/flow_network.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/check.h"
#include "common/warm.h"
#include "sim/flow_delay.h"

namespace skerry {
namespace {

constexpr double kFull = 0.98;  // of a link's rate: streams keep it full

size_t Index(int32_t number) {
  return static_cast<size_t>(number);
}

// Node numbers are not negative, so their first bit is free.
constexpr uint64_t kSignalsKey = uint64_t{1} << 63;

uint64_t ConnectionKey(int32_t from, int32_t to, FlowKind kind) {
  return static_cast<uint64_t>(from) << 32 | static_cast<uint64_t>(to) |
         (kind == FlowKind::kSignals ? kSignalsKey : 0);
}

Duration TimeFor(double bytes, int64_t rate) {
  return Duration::Nanos(static_cast<int64_t>(bytes / static_cast<double>(rate) * 1e9));
}

}  // namespace

FlowNetwork::Connection::Connection(const NetworkSpec& spec, uint64_t seed, uint64_t key)
    : from(static_cast<int32_t>((key & ~kSignalsKey) >> 32)),
      to(static_cast<int32_t>(key & 0xffffffff)),
      kind((key & kSignalsKey) != 0 ? FlowKind::kSignals : FlowKind::kBulk),
      rng(seed, "connection", key),
      window(spec.congestion_control, spec.window_bytes_max) {
  Rng unevenness(seed, "share", key);
  weight = window.DrawWeight(unevenness);
}

FlowNetwork::FlowNetwork(const NetworkSpec& spec, uint64_t seed, FlowNetworkOptions options)
    : map_(spec),
      seed_(seed),
      options_(options),
      links_(Index(map_.link_count())),
      streams_of_(spec.site_of_node.size()) {
  for (int32_t link = 0; link < map_.link_count(); ++link) {
    rates_.AddLink(map_.capacity(link));
    links_[Index(link)].capacity = map_.capacity(link);
  }
  for (size_t i = 0; i < spec.path_changes.size(); ++i)
    Push(spec.path_changes[i].at, kChange, 0, i, 0);
  for (size_t i = 0; i < spec.site_changes.size(); ++i)
    Push(spec.site_changes[i].at, kChange, 0, spec.path_changes.size() + i, 0);
}
FlowNetwork::~FlowNetwork() = default;

void FlowNetwork::Push(Instant at, DueKind kind, int32_t connection, uint64_t tag,
                       uint32_t detail) {
  due_.Push({at.nanos(), next_sequence_++, tag, connection, kind & 3U, detail & 0x3fffffffU});
}

int32_t FlowNetwork::Open(int32_t from, int32_t to, FlowKind kind) {
  const uint64_t key = ConnectionKey(from, to, kind);
  const auto [it, added] =
      connection_of_.try_emplace(key, static_cast<int32_t>(connections_.size()));
  if (added) {
    SKERRY_CHECK(from >= 0 && to >= 0 && std::max(from, to) < map_.node_count());
    Connection& c = connections_.emplace_back(map_.spec(), seed_, key);
    c.established = options_.handshake_round_trips <= 0;
    c.cut_there = IsCut(from, to);
    c.cut_back = IsCut(to, from);
    FollowMap(c);
  }
  return it->second;
}

void FlowNetwork::FollowMap(Connection& c) {
  if (c.route_version == map_version_) return;
  c.route = map_.Route(c.from, c.to);
  c.route_version = map_version_;
}

void FlowNetwork::Connect(Instant now, int32_t from, int32_t to) {
  const Connection& c = At(Open(from, to, FlowKind::kSignals));
  if (!c.established) Establish(now, c);
}

void FlowNetwork::Establish(Instant now, const Connection& connection) {
  const bool is_bulk = connection.kind == FlowKind::kBulk;
  if (is_bulk) Connect(now, connection.from, connection.to);
  for (const auto& [a, b] :
       {std::pair(connection.from, connection.to), std::pair(connection.to, connection.from)}) {
    Connection& c = At(Open(a, b, connection.kind));
    FollowMap(c);
    c.established = true;
    const double wait = options_.handshake_round_trips * c.route.round_trip.seconds();
    const Instant stands =
        is_bulk ? At(Open(a, b, FlowKind::kSignals)).free : now + Duration::Seconds(wait);
    c.free = std::max(c.free, stands);
  }
}

void FlowNetwork::Send(Instant now, int32_t connection, int64_t bytes, uint64_t tag, uint8_t rank) {
  SKERRY_CHECK(bytes > 0);
  now_ = std::max(now_, now);
  Connection& c = At(connection);
  FollowMap(c);
  if (!c.established) Establish(now, c);
  const Queued message{tag, bytes, rank, 0, false};
  const bool beyond_cut = c.cut_back && c.past_cut + static_cast<double>(bytes) > c.window.bytes();
  if (c.cut_there || beyond_cut || !c.returned.empty() || !c.waiting.empty()) {
    Wait(now, connection, message, false);
    return;
  }
  if (c.cut_back) c.past_cut += static_cast<double>(bytes);
  if (c.stream) {
    Append(now, connection, message);
    return;
  }
  c.window.OnIdle(now - c.free, RetransmissionTimeout(c.route.round_trip));
  if (bytes >= kSmallBytes || !SendSmall(now, connection, message))
    Append(now, connection, message);
}

int64_t FlowNetwork::FreeRate(const Connection& c) const {
  int64_t rate = c.route.flow_cap;
  for (size_t i = 0; i < Index(c.route.link_count); ++i) {
    const int32_t link = c.route.links[i];
    const int64_t capacity = links_[Index(link)].capacity;
    const int64_t load = streams_ > 0 ? rates_.load(link) : 0;
    // Where streams fill the link, one more gets its share.
    rate = std::min(
        rate, load == 0 ? capacity
                        : std::max(capacity - load,
                                   capacity / (static_cast<int64_t>(rates_.flows_on(link)) + 1)));
  }
  return std::max<int64_t>(rate, 1);
}

bool FlowNetwork::SendSmall(Instant now, int32_t connection, const Queued& message) {
  Connection& c = At(connection);
  const Duration rtt = c.route.round_trip;
  Instant start = std::max(now, c.free);
  RenewRound(c, start);
  const int64_t rate = FreeRate(c);
  auto left = static_cast<double>(message.bytes);
  if (c.round_sent + left > c.window.bytes()) {
    if (c.round_sent > 0) return false;
    while (left > c.window.bytes() &&
           c.window.bytes() < static_cast<double>(rate) * rtt.seconds()) {
      start = start + Duration::Seconds(c.window.Stretch(0, c.rng) * rtt.seconds());
      const double window = c.window.bytes();
      left -= window;
      c.window.OnRound(rtt, window, 0, c.rng);
    }
    c.round_start = start;
  }
  c.round_sent += left;
  c.round_counted = false;
  const Duration queue = QueueDelay(now, c, message.bytes);
  c.free = start + TimeFor(left, rate);
  Count(c, static_cast<double>(message.bytes));
  Arrive(connection, message, queue);
  return true;
}

Duration FlowNetwork::QueueDelay(Instant now, Connection& c, int64_t bytes) {
  const NetworkSpec& spec = map_.spec();
  Duration wait;
  bool full = false;
  for (size_t i = 0; i < Index(c.route.link_count); ++i) {
    const int32_t link = c.route.links[i];
    LinkState& state = links_[Index(link)];
    if (state.capacity == MaxMin::kUnlimited) continue;
    if (state.free > now) wait = std::max(wait, state.free - now);
    state.free = std::max(state.free, now) + TimeFor(static_cast<double>(bytes), state.capacity);
    if (streams_ == 0) continue;
    full |= static_cast<double>(rates_.load(link)) >= kFull * static_cast<double>(state.capacity);
  }
  if (!full) return wait;
  const double u = c.rng.Uniform();
  if (spec.congestion_control == CongestionControl::kCubic)
    return wait + Duration::Seconds(spec.queue.seconds() * (0.4 + 0.6 * u));
  if (c.route.loss > 0) return wait;
  const Duration standing = std::min(spec.queue, c.route.round_trip);
  return wait + Duration::Seconds(standing.seconds() * (0.8 + 0.2 * u));
}

void FlowNetwork::Arrive(int32_t connection, const Queued& message, Duration extra) {
  Connection& c = At(connection);
  const double in_flight = std::min(static_cast<double>(message.bytes), c.window.bytes());
  // Each in its own statement: compilers differ in which operand they evaluate first.
  const Duration repair =
      DrawLossDelay(in_flight / kSegmentBytes, c.route.loss, c.route.round_trip, c.rng);
  const Duration jitter = DrawJitter(c.route.jitter, c.rng);
  const auto host =
      Duration::Seconds(options_.host_s_per_byte * static_cast<double>(message.bytes));
  const Instant arrival = c.free + c.route.one_way + extra + jitter + repair + host;
  c.last_arrival = std::max(c.last_arrival, arrival);
  const auto bytes = static_cast<uint32_t>(std::min<int64_t>(message.bytes, 0x3fffffff));
  Push(c.last_arrival, kArrival, connection, message.tag, bytes);
}

void FlowNetwork::Count(const Connection& c, double bytes) {
  for (size_t i = 0; i < Index(c.route.link_count); ++i) {
    LinkState& state = links_[Index(c.route.links[i])];
    state.bytes += bytes;
    if (state.capacity != MaxMin::kUnlimited)
      state.busy_s += bytes / static_cast<double>(state.capacity);
  }
}

void FlowNetwork::Advance(Instant now, std::vector<Arrival>& arrived) {
  while (true) {
    arrived.insert(arrived.end(), lost_.begin(), lost_.end());
    lost_.clear();
    const bool more = !due_.empty() && due_.front().at <= now.nanos();
    // Changes of one instant are computed together.
    if (rates_dirty_ && (!more || due_.front().at > now_.nanos())) {
      UpdateRates(now_);
      continue;
    }
    if (!more) break;
    const Due due = due_.Pop();
    now_ = std::max(now_, Instant::FromNanos(due.at));
    Handle(due, arrived);
  }
  now_ = std::max(now_, now);
}

void FlowNetwork::Handle(const Due& due, std::vector<Arrival>& arrived) {
  switch (static_cast<DueKind>(due.kind)) {
    case kArrival:
      if (!cut_nodes_.empty() || !cut_regions_.empty()) {
        if (At(due.connection).cut_there) {
          Wait(now_, due.connection, {due.tag, due.detail, 0, 0, true}, true);
          return;
        }
      }
      arrived.push_back({due.tag, false, false});
      return;
    case kStream: {
      Connection& c = At(due.connection);
      if (!c.stream || (c.generation & 0x3fffffff) != due.detail) return;
      OnStream(now_, due.connection);
      return;
    }
    case kStall:
      if ((At(due.connection).stall & 0x3fffffff) == due.detail) OnStall(now_, due.connection);
      return;
    case kChange:
      ApplyChange(due.tag);
      return;
  }
}

void FlowNetwork::ApplyChange(size_t change) {
  const NetworkSpec& spec = map_.spec();
  const size_t paths = spec.path_changes.size();
  const std::vector<int32_t> links = change < paths ? map_.Apply(spec.path_changes[change])
                                                    : map_.Apply(spec.site_changes[change - paths]);
  ++map_version_;
  for (const int32_t link : links) {
    rates_.SetCapacity(link, map_.capacity(link));
    links_[Index(link)].capacity = map_.capacity(link);
  }
  rates_dirty_ = true;
  if (change >= paths) return;
  // Round trips and caps of running streams change with their next round.
  for (Connection& c : connections_) {
    if (c.stream) FollowMap(c);
  }
}

void FlowNetwork::Prefetch(int32_t connection) const {
  Warm(&connections_[Index(connection)], offsetof(Connection, weight));
}

void FlowNetwork::PrefetchLinks(int32_t connection) const {
  const FlowRoute& route = connections_[Index(connection)].route;
  for (size_t i = 0; i < Index(route.link_count); ++i) Warm(&links_[Index(route.links[i])], 1);
}

std::vector<FlowNetwork::LinkUse> FlowNetwork::Use(Instant now) {
  for (Connection& c : connections_) {
    if (c.stream && c.stream->flow >= 0) Settle(now, c);
  }
  std::vector<LinkUse> use;
  for (int32_t link = 0; link < map_.link_count(); ++link) {
    const LinkState& state = links_[Index(link)];
    if (state.bytes > 0)
      use.push_back({map_.kind(link), map_.index(link), state.bytes, state.busy_s});
  }
  return use;
}

}  // namespace skerry
