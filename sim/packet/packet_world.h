// Nodes in network namespaces of their own, a network between them that shapes packets: the world
// that `skerry-sim emulate --shaper packets` and `./dev bench fidelity` run real TCP in.
//
// Node n has the address PacketAddressText(n) on its link "wan0". Namespaces have no names; when
// this process ends, however it ends, and the processes it started in them, they are gone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/network_spec.h"
#include "sim/packet/net_namespace.h"
#include "sim/packet/packet_hub.h"
#include "sim/packet/packet_platform.h"

namespace skerry {

struct PacketWorldOptions {
  uint64_t seed = 1;  // of loss and jitter
  // Linux remembers what a path was like and lets a new connection begin with it. Off, connections
  // are independent draws.
  bool remember_paths = true;
  // These nodes live in a home behind a router (home_router.h), which has their address.
  std::set<int32_t> behind_routers = {};
};

class PacketWorld {
 public:
  // With the best way that the machine allows. The process must have a single thread if that way
  // is a user namespace: then this process has moved into it for good. FailedPrecondition if there
  // is no way, or no such congestion control.
  static absl::StatusOr<std::unique_ptr<PacketWorld>> Create(const NetworkSpec& spec,
                                                             const PacketWorldOptions& options);

  // Likewise, this way.
  static absl::StatusOr<std::unique_ptr<PacketWorld>> CreateThisWay(
      const PacketWay& way, const NetworkSpec& spec, const PacketWorldOptions& options);

  const NetNamespace& node(int32_t number) const { return nodes_[static_cast<size_t>(number)]; }
  const PacketWay& way() const { return way_; }
  PacketHub& hub() { return *hub_; }

 private:
  PacketWorld(const PacketWay& way, NetNamespace outside)
      : way_(way), outside_(std::move(outside)) {}
  absl::Status AddNode(const NetworkSpec& spec, const PacketWorldOptions& options,
                       std::vector<PacketPort>& ports);

  PacketWay way_;
  NetNamespace outside_;  // where the outer ends of veth pairs live
  std::vector<NetNamespace> routers_;
  std::vector<NetNamespace> nodes_;
  std::unique_ptr<PacketHub> hub_;
};

}  // namespace skerry
