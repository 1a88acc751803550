// The few requests to the kernel's routing socket that a namespace needs: links, an address, a
// route. All act on the network namespace of the calling thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace skerry {

struct LinkSettings {
  int mtu = 1500;
  int queue_packets = 0;  // 0: as it is
  bool no_arp = false;
  bool fixed_address = false;  // the hardware address that all our links share
};

// A pair of virtual Ethernet links: `name` here, `peer_name` in the namespace of descriptor
// `peer_namespace`.
absl::Status CreateVethPair(const std::string& name, const std::string& peer_name,
                            int peer_namespace);

absl::Status BringUp(const std::string& link, const LinkSettings& settings);

// Addresses in host byte order; also makes the route of the prefix.
absl::Status AddAddress(const std::string& link, uint32_t address, int prefix_bits);

// The route of the prefix `address` belongs to, with this congestion control for its connections.
absl::Status RouteWithCongestionControl(const std::string& link, uint32_t address, int prefix_bits,
                                        const std::string& congestion_control);

// The default route, likewise.
absl::Status RouteAllThrough(const std::string& link, uint32_t gateway,
                             const std::string& congestion_control);

}  // namespace skerry
