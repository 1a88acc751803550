#include "sim/packet/netlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "common/status.h"

namespace skerry {
namespace {

// The hardware address of every link: with it, and without ARP, every frame is for its receiver.
constexpr uint8_t kHardwareAddress[6] = {0x02, 0x53, 0x4b, 0x00, 0x00, 0x01};

// One request, built up and sent.
class Request {
 public:
  Request(uint16_t type, uint16_t flags, const void* body, size_t size) : bytes_(NLMSG_HDRLEN) {
    header_.nlmsg_type = type;
    header_.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    Append(body, size);
  }

  void Add(uint16_t type, const void* value, size_t size) {
    const size_t start = Begin(type);
    Append(value, size);
    End(start);
  }
  void AddText(uint16_t type, const std::string& text) { Add(type, text.c_str(), text.size() + 1); }
  void AddNumber(uint16_t type, uint32_t value) { Add(type, &value, sizeof value); }

  // A nested attribute: everything between Begin and End.
  size_t Begin(uint16_t type) {
    const rtattr attribute{0, type};
    const size_t start = bytes_.size();
    Append(&attribute, sizeof attribute);
    return start;
  }
  void End(size_t start) {
    const auto size = static_cast<uint16_t>(size_of(start));
    std::memcpy(&bytes_[start], &size, sizeof size);
  }
  void Append(const void* value, size_t size) {
    const auto* from = static_cast<const uint8_t*>(value);
    bytes_.insert(bytes_.end(), from, from + size);
    tail_ = bytes_.size();
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }

  absl::Status Send(const std::string& what);

 private:
  size_t size_of(size_t start) const { return tail_ - start; }

  nlmsghdr header_{};
  std::vector<uint8_t> bytes_;
  size_t tail_ = 0;  // without padding
};

absl::Status Request::Send(const std::string& what) {
  const auto fail = [&](int error) {
    return Unavailable("cannot %s: %s", what, std::strerror(error));
  };
  header_.nlmsg_len = static_cast<uint32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &header_, sizeof header_);
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return fail(errno);
  uint8_t answer[4096];
  int error = 0;
  if (send(fd, bytes_.data(), bytes_.size(), 0) < 0) {
    error = errno;
  } else if (const ssize_t size = recv(fd, answer, sizeof answer, 0); size < 0) {
    error = errno;
  } else if (static_cast<size_t>(size) >= NLMSG_HDRLEN + sizeof(nlmsgerr)) {
    nlmsgerr verdict{};
    std::memcpy(&verdict, answer + NLMSG_HDRLEN, sizeof verdict);
    error = -verdict.error;
  }
  close(fd);
  return error == 0 ? absl::OkStatus() : fail(error);
}

absl::Status IndexOf(const std::string& link, int& index) {
  index = static_cast<int>(if_nametoindex(link.c_str()));
  return index > 0 ? absl::OkStatus() : NotFound("there is no network link '%s'", link);
}

}  // namespace

absl::Status CreateVethPair(const std::string& name, const std::string& peer_name,
                            int peer_namespace) {
  const ifinfomsg body{};
  Request request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof body);
  request.AddText(IFLA_IFNAME, name);
  const size_t info = request.Begin(IFLA_LINKINFO);
  request.AddText(IFLA_INFO_KIND, "veth");
  const size_t values = request.Begin(IFLA_INFO_DATA);
  const size_t peer = request.Begin(VETH_INFO_PEER);
  request.Append(&body, sizeof body);
  request.AddText(IFLA_IFNAME, peer_name);
  request.AddNumber(IFLA_NET_NS_FD, static_cast<uint32_t>(peer_namespace));
  request.End(peer);
  request.End(values);
  request.End(info);
  return request.Send("create a veth pair");
}

absl::Status BringUp(const std::string& link, const LinkSettings& settings) {
  ifinfomsg body{};
  SKERRY_RETURN_IF_ERROR(IndexOf(link, body.ifi_index));
  body.ifi_flags = IFF_UP;
  if (settings.no_arp) body.ifi_flags |= IFF_NOARP;
  body.ifi_change = body.ifi_flags;
  Request request(RTM_NEWLINK, 0, &body, sizeof body);
  if (link != "lo") request.AddNumber(IFLA_MTU, static_cast<uint32_t>(settings.mtu));
  if (settings.queue_packets > 0)
    request.AddNumber(IFLA_TXQLEN, static_cast<uint32_t>(settings.queue_packets));
  if (settings.fixed_address) request.Add(IFLA_ADDRESS, kHardwareAddress, sizeof kHardwareAddress);
  return request.Send("bring up '" + link + "'");
}

absl::Status AddAddress(const std::string& link, uint32_t address, int prefix_bits) {
  int index = 0;
  SKERRY_RETURN_IF_ERROR(IndexOf(link, index));
  ifaddrmsg body{};
  body.ifa_family = AF_INET;
  body.ifa_prefixlen = static_cast<uint8_t>(prefix_bits);
  body.ifa_index = static_cast<uint32_t>(index);
  Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof body);
  request.AddNumber(IFA_LOCAL, htonl(address));
  request.AddNumber(IFA_ADDRESS, htonl(address));
  return request.Send("give '" + link + "' an address");
}

absl::Status RouteWithCongestionControl(const std::string& link, uint32_t address, int prefix_bits,
                                        const std::string& congestion_control) {
  int index = 0;
  SKERRY_RETURN_IF_ERROR(IndexOf(link, index));
  rtmsg body{};
  body.rtm_family = AF_INET;
  body.rtm_dst_len = static_cast<uint8_t>(prefix_bits);
  body.rtm_table = RT_TABLE_MAIN;
  body.rtm_protocol = RTPROT_KERNEL;
  body.rtm_scope = RT_SCOPE_LINK;
  body.rtm_type = RTN_UNICAST;
  Request request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof body);
  const uint32_t mask = ~uint32_t{0} << (32 - prefix_bits);
  request.AddNumber(RTA_DST, htonl(address & mask));
  request.AddNumber(RTA_OIF, static_cast<uint32_t>(index));
  request.AddNumber(RTA_PREFSRC, htonl(address));
  const size_t metrics = request.Begin(RTA_METRICS);
  request.AddText(RTAX_CC_ALGO, congestion_control);
  request.End(metrics);
  return request.Send("use congestion control '" + congestion_control + "'");
}

absl::Status RouteAllThrough(const std::string& link, uint32_t gateway,
                             const std::string& congestion_control) {
  int index = 0;
  SKERRY_RETURN_IF_ERROR(IndexOf(link, index));
  rtmsg body{};
  body.rtm_family = AF_INET;
  body.rtm_table = RT_TABLE_MAIN;
  body.rtm_protocol = RTPROT_STATIC;
  body.rtm_scope = RT_SCOPE_UNIVERSE;
  body.rtm_type = RTN_UNICAST;
  Request request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof body);
  request.AddNumber(RTA_GATEWAY, htonl(gateway));
  request.AddNumber(RTA_OIF, static_cast<uint32_t>(index));
  const size_t metrics = request.Begin(RTA_METRICS);
  request.AddText(RTAX_CC_ALGO, congestion_control);
  request.End(metrics);
  return request.Send("route everything through a router");
}

}  // namespace skerry
