// The links of a NetworkSpec under small numbers, and which of them a message from node to node
// crosses.
//
// Links: every site's line up and line down, every directed path between regions, every site's
// local network as far as it is shared, and of every node the two directions of its port at the
// switch of its site, which a local network is otherwise. A line of 100 Mbit/s carries 1448/1500 of
// that as payload: capacities here are payload. A path's flow_bytes_per_s is already what a flow
// delivers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "sim/network_spec.h"

namespace skerry {

struct FlowRoute {
  // Site up, path, site down, between the ports of those who share their site; within one the two
  // ports alone, or its shared network. Over a relay: of both ways, each once.
  std::array<int32_t, 10> links{};
  int32_t link_count = 0;
  int64_t flow_cap = 0;  // bytes/s that one flow gets at most; MaxMin::kUnlimited
  Duration one_way;
  Duration round_trip;
  Duration jitter;
  double loss = 0;
};

enum class LinkKind : uint8_t { kSiteUp, kSiteDown, kPath, kLocal, kPort };

class FlowMap {
 public:
  // CHECKs that indices and sizes of the spec fit together: who read the spec has refused others.
  explicit FlowMap(const NetworkSpec& spec);

  int32_t link_count() const { return static_cast<int32_t>(capacity_.size()); }
  int64_t capacity(int32_t link) const { return capacity_[static_cast<size_t>(link)]; }
  FlowRoute Route(int32_t from, int32_t to) const;
  // Over which node the two reach each other; −1: directly.
  int32_t RelayOf(int32_t from, int32_t to) const;
  // The two reach each other over node 0 for now, or no longer.
  void Bridge(int32_t a, int32_t b, bool bridged);
  bool IsBridged(int32_t a, int32_t b) const { return bridged_.contains(std::minmax(a, b)); }
  int32_t region_of(int32_t node) const { return Site(node).region; }
  int32_t node_count() const { return static_cast<int32_t>(spec_.site_of_node.size()); }
  int32_t region_count() const { return static_cast<int32_t>(spec_.regions.size()); }
  const NetworkSpec& spec() const { return spec_; }

  LinkKind kind(int32_t link) const;
  // The site of a line or local network, the node of a port; of a path region_from · regions +
  // region_to.
  int32_t index(int32_t link) const;

  // Returns the links whose capacity may have changed.
  std::vector<int32_t> Apply(const PathChange& change);
  std::vector<int32_t> Apply(const SiteChange& change);

 private:
  const SiteSpec& Site(int32_t node) const;
  FlowRoute DirectRoute(int32_t from, int32_t to) const;
  int32_t sites() const { return static_cast<int32_t>(spec_.sites.size()); }
  int32_t PathLink(int32_t from, int32_t to) const {
    return 2 * sites() + from * region_count() + to;
  }
  int32_t Locals() const { return 2 * sites() + region_count() * region_count(); }
  int32_t Ports() const { return Locals() + sites(); }
  bool HasPort(int32_t node) const;
  void SetCapacities();

  NetworkSpec spec_;
  std::vector<int32_t> nodes_at_;  // a site
  std::vector<int64_t> capacity_;
  std::set<std::pair<int32_t, int32_t>> bridged_;  // the smaller first
};

}  // namespace skerry
