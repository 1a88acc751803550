#include "sim/flow_map.h"

#include <algorithm>

#include "common/check.h"
#include "common/rng.h"
#include "sim/flow_window.h"
#include "sim/max_min.h"

namespace skerry {
namespace {

size_t At(int32_t index) {
  return static_cast<size_t>(index);
}

int64_t PayloadRate(double bytes_per_s) {
  if (bytes_per_s <= 0) return MaxMin::kUnlimited;
  return std::max<int64_t>(1, static_cast<int64_t>(bytes_per_s * kPayloadShare));
}

}  // namespace

FlowMap::FlowMap(const NetworkSpec& spec) : spec_(spec) {
  SKERRY_CHECK(spec_.paths.size() == spec_.regions.size() * spec_.regions.size());
  for (const SiteSpec& site : spec_.sites)
    SKERRY_CHECK(site.region >= 0 && site.region < region_count());
  for (const int32_t site : spec_.site_of_node) SKERRY_CHECK(site >= 0 && site < sites());
  for (const PathSpec& path : spec_.paths) SKERRY_CHECK(path.loss >= 0 && path.loss < 1);
  nodes_at_ = NodesAtSites(spec_);
  SetCapacities();
}

bool FlowMap::HasPort(int32_t node) const {
  return nodes_at_[At(spec_.site_of_node[At(node)])] > 1 && !Site(node).local_is_shared;
}

void FlowMap::SetCapacities() {
  capacity_.clear();
  for (const SiteSpec& site : spec_.sites) {
    capacity_.push_back(PayloadRate(site.up_bytes_per_s));
    capacity_.push_back(PayloadRate(site.down_bytes_per_s));
  }
  for (const PathSpec& path : spec_.paths) capacity_.push_back(PayloadRate(path.bytes_per_s));
  for (const SiteSpec& site : spec_.sites) capacity_.push_back(PayloadRate(site.local_bytes_per_s));
  for (int32_t node = 0; node < node_count(); ++node) {
    const int64_t port = PayloadRate(Site(node).local_bytes_per_s);
    capacity_.insert(capacity_.end(), {port, port});
  }
}

const SiteSpec& FlowMap::Site(int32_t node) const {
  return spec_.sites[At(spec_.site_of_node[At(node)])];
}

void FlowMap::Bridge(int32_t a, int32_t b, bool bridged) {
  if (bridged) {
    bridged_.insert(std::minmax(a, b));
  } else {
    bridged_.erase(std::minmax(a, b));
  }
}

int32_t FlowMap::RelayOf(int32_t from, int32_t to) const {
  if (!bridged_.empty() && IsBridged(from, to)) return 0;
  const auto hidden = [&](int32_t node) {
    return std::binary_search(spec_.behind_routers.begin(), spec_.behind_routers.end(), node);
  };
  if (spec_.behind_routers.empty() || from == to || !hidden(from) || !hidden(to)) return -1;
  const auto [low, high] = std::minmax(from, to);
  const uint64_t pair = Mix64(static_cast<uint64_t>(low) << 32 | static_cast<uint32_t>(high));
  int32_t best = 0;
  uint64_t best_weight = 0;
  for (const int32_t relay : spec_.relays) {
    const uint64_t weight = Mix64(pair ^ static_cast<uint64_t>(relay));
    if (best == 0 || weight < best_weight) {
      best = relay;
      best_weight = weight;
    }
  }
  return best;
}

// A relayed pair's bytes cross both ways; what they have in common they cross once.
FlowRoute FlowMap::Route(int32_t from, int32_t to) const {
  const int32_t relay = RelayOf(from, to);
  if (relay < 0) return DirectRoute(from, to);
  FlowRoute route = DirectRoute(from, relay);
  const FlowRoute on = DirectRoute(relay, to);
  for (int32_t i = 0; i < on.link_count; ++i) {
    const auto begin = route.links.begin(), end = begin + route.link_count;
    if (std::find(begin, end, on.links[At(i)]) == end)
      route.links[At(route.link_count++)] = on.links[At(i)];
  }
  route.flow_cap = std::min(route.flow_cap, on.flow_cap);
  route.one_way = route.one_way + on.one_way;
  route.round_trip = route.round_trip + on.round_trip;
  route.jitter = route.jitter + on.jitter;
  route.loss = 1 - (1 - route.loss) * (1 - on.loss);
  return route;
}

FlowRoute FlowMap::DirectRoute(int32_t from, int32_t to) const {
  const int32_t a = spec_.site_of_node[At(from)], b = spec_.site_of_node[At(to)];
  const SiteSpec &sender = spec_.sites[At(a)], &receiver = spec_.sites[At(b)];
  FlowRoute route;
  if (a == b) {
    route.links = {Ports() + 2 * from, Ports() + 2 * to + 1};
    route.link_count = 2;
    if (sender.local_is_shared) {
      route.links = {Locals() + a};
      route.link_count = 1;
    }
    route.flow_cap = MaxMin::kUnlimited;
    route.one_way = sender.local_one_way;
    route.round_trip = sender.local_one_way * 2;
    return route;
  }
  const Duration access = sender.access_one_way + receiver.access_one_way;
  const int32_t there = PathLink(sender.region, receiver.region);
  const int32_t back = PathLink(receiver.region, sender.region);
  const PathSpec& path = spec_.paths[At(there - 2 * sites())];
  const auto cross = [&](int32_t link) { route.links[At(route.link_count++)] = link; };
  if (HasPort(from)) cross(Ports() + 2 * from);
  for (const int32_t link : {2 * a, there, 2 * b + 1}) cross(link);
  if (HasPort(to)) cross(Ports() + 2 * to + 1);
  route.flow_cap = path.flow_bytes_per_s > 0
                       ? std::max<int64_t>(1, static_cast<int64_t>(path.flow_bytes_per_s))
                       : MaxMin::kUnlimited;
  route.one_way = path.one_way + access;
  route.round_trip = path.one_way + spec_.paths[At(back - 2 * sites())].one_way + access * 2;
  route.jitter = path.jitter;
  route.loss = path.loss;
  return route;
}

LinkKind FlowMap::kind(int32_t link) const {
  if (link < 2 * sites()) return link % 2 == 0 ? LinkKind::kSiteUp : LinkKind::kSiteDown;
  if (link < Locals()) return LinkKind::kPath;
  return link < Ports() ? LinkKind::kLocal : LinkKind::kPort;
}

int32_t FlowMap::index(int32_t link) const {
  switch (kind(link)) {
    case LinkKind::kSiteUp:
    case LinkKind::kSiteDown:
      return link / 2;
    case LinkKind::kPath:
      return link - 2 * sites();
    case LinkKind::kLocal:
      return link - Locals();
    case LinkKind::kPort:
      break;
  }
  return (link - Ports()) / 2;
}

std::vector<int32_t> FlowMap::Apply(const PathChange& change) {
  const int32_t link = PathLink(change.from, change.to);
  spec_.paths[At(link - 2 * sites())] = change.path;
  capacity_[At(link)] = PayloadRate(change.path.bytes_per_s);
  return {link};
}

std::vector<int32_t> FlowMap::Apply(const SiteChange& change) {
  const int32_t up = 2 * change.site, down = up + 1;
  capacity_[At(up)] = PayloadRate(change.up_bytes_per_s);
  capacity_[At(down)] = PayloadRate(change.down_bytes_per_s);
  return {up, down};
}

}  // namespace skerry
