#include "sim/packet/packet_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/status.h"
#include "sim/packet/netlink.h"

namespace skerry {
namespace {

constexpr size_t kPacketBytesMax = 65535;
constexpr int kSocketBufferBytes = 64 << 20;
constexpr uint16_t kEthernet = 14;
// To and from the address that all our links share (netlink.cc), IPv4.
constexpr std::array<uint8_t, kEthernet> kEthernetHeader = {
    0x02, 0x53, 0x4b, 0x00, 0x00, 0x01, 0x02, 0x53, 0x4b, 0x00, 0x00, 0x01, 0x08, 0x00};

absl::Status Failed(const char* what) {
  return Unavailable("%s: %s", what, std::strerror(errno));
}

absl::Status OpenTun(int& fd) {
  fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return Failed("/dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, kPortLink, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(fd, TUNSETIFF, &request) != 0) return Failed("TUNSETIFF");
  if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) return Failed("TUNSETOFFLOAD");
  return absl::OkStatus();
}

absl::Status OpenPacketSocket(const std::string& link, int& fd) {
  fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failed("packet socket");
  const int one = 1;
  for (const int option : {PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, PACKET_QDISC_BYPASS}) {
    if (setsockopt(fd, SOL_PACKET, option, &one, sizeof one) != 0)
      return Failed("options of a packet socket");
  }
  // As large as it may be: only a privileged process gets it beyond the system's limit.
  for (const int option : {SO_RCVBUF, SO_RCVBUFFORCE, SO_SNDBUF, SO_SNDBUFFORCE})
    setsockopt(fd, SOL_SOCKET, option, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_IP);
  address.sll_ifindex = static_cast<int>(if_nametoindex(link.c_str()));
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return Failed("packet socket");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PacketPort> PacketPort::Create(PortKind kind, const NetNamespace& node,
                                              const NetNamespace& hub, int32_t number) {
  PacketPort port(kind);
  if (kind == PortKind::kTun) {
    SKERRY_RETURN_IF_ERROR(node.Run([&] { return OpenTun(port.fd_); }));
    return port;
  }
  const std::string outer = absl::StrFormat("hub%d", number);
  SKERRY_RETURN_IF_ERROR(node.Run([&] { return CreateVethPair(kPortLink, outer, hub.fd()); }));
  SKERRY_RETURN_IF_ERROR(hub.Run([&] {
    const absl::Status up =
        BringUp(outer, {.queue_packets = 1000, .no_arp = true, .fixed_address = true});
    return up.ok() ? OpenPacketSocket(outer, port.fd_) : up;
  }));
  return port;
}

PacketPort::PacketPort(PortKind kind) : kind_(kind), scratch_(kPacketBytesMax) {}

PacketPort::PacketPort(PacketPort&& other) noexcept
    : kind_(other.kind_), fd_(std::exchange(other.fd_, -1)), scratch_(std::move(other.scratch_)) {}

PacketPort& PacketPort::operator=(PacketPort&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(fd_, other.fd_);
  std::swap(scratch_, other.scratch_);
  return *this;
}

PacketPort::~PacketPort() {
  if (fd_ >= 0) close(fd_);
}

bool PacketPort::Read(Packet& packet) {
  const bool ethernet = kind_ == PortKind::kVeth;
  std::array<uint8_t, kEthernet> header{};
  iovec parts[3] = {{&packet.offload, sizeof packet.offload},
                    {header.data(), ethernet ? kEthernet : size_t{0}},
                    {scratch_.data(), scratch_.size()}};
  const ssize_t size = readv(fd_, parts, 3);
  if (size < 0) return false;
  const size_t before = sizeof packet.offload + parts[1].iov_len;
  const auto total = static_cast<size_t>(size);
  const size_t ip = total > before ? total - before : 0;
  packet.bytes.assign(scratch_.begin(), scratch_.begin() + static_cast<ptrdiff_t>(ip));
  if (!ethernet) return true;
  if (header[12] != 0x08 || header[13] != 0x00) packet.bytes.clear();
  const bool has_offsets = packet.offload.flags & OffloadHeader::kNeedsChecksum;
  if (has_offsets)
    packet.offload.checksum_start =
        static_cast<uint16_t>(packet.offload.checksum_start - kEthernet);
  if (packet.offload.header_bytes >= kEthernet)
    packet.offload.header_bytes = static_cast<uint16_t>(packet.offload.header_bytes - kEthernet);
  return true;
}

bool PacketPort::Write(const Packet& packet) {
  const bool ethernet = kind_ == PortKind::kVeth;
  OffloadHeader offload = packet.offload;
  if (ethernet) {
    if (offload.flags & OffloadHeader::kNeedsChecksum)
      offload.checksum_start = static_cast<uint16_t>(offload.checksum_start + kEthernet);
    if (offload.header_bytes > 0)
      offload.header_bytes = static_cast<uint16_t>(offload.header_bytes + kEthernet);
  }
  // What the receiving kernel has no use for it refuses.
  offload.flags &= OffloadHeader::kNeedsChecksum;
  const iovec parts[3] = {
      {&offload, sizeof offload},
      {const_cast<uint8_t*>(kEthernetHeader.data()), ethernet ? kEthernet : size_t{0}},
      {const_cast<uint8_t*>(packet.bytes.data()), packet.bytes.size()}};
  return writev(fd_, parts, 3) >= 0;
}

int64_t PacketPort::TakeOverruns() {
  if (kind_ != PortKind::kVeth) return 0;
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &size) != 0) return 0;
  return stats.tp_drops;
}

}  // namespace skerry
