#include "sim/packet/packet_world.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/status.h"
#include "sim/packet/home_router.h"
#include "sim/packet/netlink.h"
#include "sim/packet/packet_plan.h"
#include "sim/packet/packet_settings.h"

namespace skerry {
namespace {

constexpr int kLinkQueuePackets = 5000;
// What Linux lets one flow have under way of a send buffer of 4 MiB.
constexpr double kSendBufferPerWindow = 4194304 / 3.5e6;

const char* ControlOf(const NetworkSpec& spec) {
  return spec.congestion_control == CongestionControl::kBbr ? "bbr" : "cubic";
}

absl::Status SetTcp(const NetworkSpec& spec, const PacketWorldOptions& options) {
  const auto window = static_cast<int64_t>(spec.window_bytes_max * kSendBufferPerWindow);
  SKERRY_RETURN_IF_ERROR(
      SetNetwork("tcp_wmem", absl::StrFormat("4096 16384 %d", std::max<int64_t>(window, 16384))));
  return options.remember_paths ? absl::OkStatus() : SetNetwork("tcp_no_metrics_save", "1");
}

absl::Status SetUp(PortKind port, int32_t number, const NetworkSpec& spec,
                   const PacketWorldOptions& options) {
  const bool veth = port == PortKind::kVeth;
  SKERRY_RETURN_IF_ERROR(BringUp("lo", {}));
  SKERRY_RETURN_IF_ERROR(BringUp(
      kPortLink, {.queue_packets = kLinkQueuePackets, .no_arp = veth, .fixed_address = veth}));
  SKERRY_RETURN_IF_ERROR(AddAddress(kPortLink, PacketAddress(number), kPacketPrefix));
  SKERRY_RETURN_IF_ERROR(
      RouteWithCongestionControl(kPortLink, PacketAddress(number), kPacketPrefix, ControlOf(spec)));
  return SetTcp(spec, options);
}

}  // namespace

absl::Status SetNetwork(const std::string& name, const std::string& value) {
  const std::string path = "/proc/sys/net/ipv4/" + name;
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Unavailable("%s: %s", path, std::strerror(errno));
  const bool wrote = write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  const int error = errno;
  close(fd);
  return wrote ? absl::OkStatus() : Unavailable("%s: %s", path, std::strerror(error));
}

absl::StatusOr<std::unique_ptr<PacketWorld>> PacketWorld::Create(
    const NetworkSpec& spec, const PacketWorldOptions& options) {
  SKERRY_ASSIGN_OR_RETURN(const PacketWay way, ProbePacketPlatform().Best());
  return CreateThisWay(way, spec, options);
}

absl::StatusOr<std::unique_ptr<PacketWorld>> PacketWorld::CreateThisWay(
    const PacketWay& way, const NetworkSpec& spec, const PacketWorldOptions& options) {
  if (spec.site_of_node.size() > kPacketNodesMax)
    return FailedPrecondition("packet emulation has at most %d nodes", kPacketNodesMax);
  if (way.user_namespace) SKERRY_RETURN_IF_ERROR(EnterUserNamespace());
  SKERRY_ASSIGN_OR_RETURN(NetNamespace outside, NetNamespace::Create());
  std::unique_ptr<PacketWorld> world(new PacketWorld(way, std::move(outside)));
  std::vector<PacketPort> ports;
  for (size_t i = 0; i < spec.site_of_node.size(); ++i)
    SKERRY_RETURN_IF_ERROR(world->AddNode(spec, options, ports));
  SKERRY_ASSIGN_OR_RETURN(world->hub_,
                          PacketHub::Start(MakePacketPlan(spec), options.seed, std::move(ports)));
  return world;
}

absl::Status PacketWorld::AddNode(const NetworkSpec& spec, const PacketWorldOptions& options,
                                  std::vector<PacketPort>& ports) {
  const auto number = static_cast<int32_t>(nodes_.size());
  SKERRY_ASSIGN_OR_RETURN(NetNamespace node, NetNamespace::Create());
  SKERRY_ASSIGN_OR_RETURN(PacketPort port, PacketPort::Create(way_.port, node, outside_, number));
  ports.push_back(std::move(port));
  SKERRY_RETURN_IF_ERROR(node.Run([&] { return SetUp(way_.port, number, spec, options); }));
  if (!options.behind_routers.contains(number)) {
    nodes_.push_back(std::move(node));
    return absl::OkStatus();
  }
  SKERRY_ASSIGN_OR_RETURN(NetNamespace home, MakeHome(node, kPortLink, ControlOf(spec)));
  SKERRY_RETURN_IF_ERROR(home.Run([&] { return SetTcp(spec, options); }));
  routers_.push_back(std::move(node));
  nodes_.push_back(std::move(home));
  return absl::OkStatus();
}

}  // namespace skerry
