// What this machine allows of packet emulation, found out by trying.
//
// A way is a right (our own capabilities, or those in a user namespace of ours) and a port (TUN or
// veth). The trial runs in a child process, so nothing of it stays.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/packet/packet_port.h"

namespace skerry {

struct PacketWay {
  bool user_namespace = false;
  PortKind port = PortKind::kTun;
};

struct TriedWay {
  PacketWay way;
  std::string obstacle;  // "" if it works
};

struct PacketPlatform {
  std::vector<TriedWay> ways;                    // in order of preference, all four
  std::vector<std::string> congestion_controls;  // that the kernel has
  bool real_time = false;                        // the shaper may have real-time priority

  // The first that works; FailedPrecondition saying what stood in the way of each.
  absl::StatusOr<PacketWay> Best() const;
};

// Tries every way: two namespaces, ports, addresses, a route with a congestion control.
PacketPlatform ProbePacketPlatform();

// "root with TUN", "unprivileged user namespace with veth pairs" …
std::string NameOf(const PacketWay& way);

// For people: every way and its obstacle, congestion controls, priority, what emulate would choose.
std::string Describe(const PacketPlatform& platform);

}  // namespace skerry
