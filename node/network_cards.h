// The network cards of this machine, as the kernel describes them under /sys: which kind of network
// each is on and how fast it says it is. What a link really carries is measured, not read
// (node/link_prober.h); the kind decides who may be in one communicator (InfiniBand and RoCE do not
// talk to each other).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace skerry {

enum class NetworkKind : uint8_t { kEthernet, kRoce, kInfiniband };

struct NetworkCard {
  std::string name;  // "mlx5_0 port 1", "eth0"
  NetworkKind kind = NetworkKind::kEthernet;
  double gbit_s = 0;  // 0: it does not say, as virtual ones
  bool is_up = false;
  bool operator==(const NetworkCard&) const = default;
};

// Fastest first: ports of RDMA cards, and network interfaces of hardware that no such port is of.
// `sys` is /sys, or what tests put in its place. What cannot be read is left out.
std::vector<NetworkCard> NetworkCards(const std::string& sys = "/sys");

// The kind of the fastest that is up; "": none is known.
std::string NetworkOf(const std::vector<NetworkCard>& cards);

// "Ethernet", "RoCE", "InfiniBand"
const char* KindName(NetworkKind kind);
// "InfiniBand mlx5_0 port 1, 200 Gbit/s"
std::string Describe(const NetworkCard& card);

}  // namespace skerry
