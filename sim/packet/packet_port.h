// Where the packets of one node come out of its namespace and are put back in: the node's side is a
// network link "wan0", ours a descriptor.
//
// kTun: a TUN device; the descriptor is the device. kVeth: one end of a veth pair with a raw packet
// socket on the other end, which lies in a namespace of ours; needs no /dev/net/tun. Both pass TCP
// super-packets whole (segments.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/packet/net_namespace.h"
#include "sim/packet/segments.h"

namespace skerry {

enum class PortKind : uint8_t { kTun, kVeth };

inline constexpr const char* kPortLink = "wan0";

class PacketPort {
 public:
  // Makes "wan0" inside `node`; the link is still down. `hub` is where the outer ends of veth pairs
  // live, `number` tells them apart.
  static absl::StatusOr<PacketPort> Create(PortKind kind, const NetNamespace& node,
                                           const NetNamespace& hub, int32_t number);

  PacketPort(PacketPort&& other) noexcept;
  PacketPort& operator=(PacketPort&& other) noexcept;
  ~PacketPort();

  int fd() const { return fd_; }  // non-blocking; readable when the node has sent something

  // False when there is nothing to read now. What is not IP comes back with empty bytes.
  bool Read(Packet& packet);

  // False if the kernel did not take it.
  bool Write(const Packet& packet);

  // Packets that the kernel threw away because nobody read them in time. Each call tells of new
  // ones.
  int64_t TakeOverruns();

 private:
  explicit PacketPort(PortKind kind);

  PortKind kind_ = PortKind::kTun;
  int fd_ = -1;
  std::vector<uint8_t> scratch_;  // a packet of any size
};

}  // namespace skerry
