#include "sim/packet/packet_platform.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/status.h"
#include "sim/packet/netlink.h"
#include "sim/packet/packet_plan.h"

namespace skerry {
namespace {

absl::Status Try(const PacketWay& way) {
  if (way.user_namespace) SKERRY_RETURN_IF_ERROR(EnterUserNamespace());
  SKERRY_ASSIGN_OR_RETURN(const NetNamespace hub, NetNamespace::Create());
  SKERRY_ASSIGN_OR_RETURN(const NetNamespace node, NetNamespace::Create());
  SKERRY_ASSIGN_OR_RETURN(const PacketPort port, PacketPort::Create(way.port, node, hub, 0));
  return node.Run([&]() -> absl::Status {
    SKERRY_RETURN_IF_ERROR(BringUp(kPortLink, {.no_arp = way.port == PortKind::kVeth}));
    return AddAddress(kPortLink, PacketAddress(0), kPacketPrefix);
  });
}

// Runs `work` in a child process; its error text, "" for none.
template <typename Work>
std::string InChild(Work&& work) {
  int ends[2];
  if (pipe(ends) != 0) return std::strerror(errno);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    const std::string text = ErrorText(work());
    const bool said = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(said ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 1;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return "the trial itself failed";
  return text;
}

absl::Status TryRealTime() {
  sched_param priority{};
  priority.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &priority) == 0) return absl::OkStatus();
  return Unavailable("%s", std::strerror(errno));
}

}  // namespace

PacketPlatform ProbePacketPlatform() {
  PacketPlatform platform;
  for (const bool user_namespace : {false, true}) {
    for (const PortKind port : {PortKind::kTun, PortKind::kVeth}) {
      const PacketWay way{user_namespace, port};
      platform.ways.push_back({way, InChild([&] { return Try(way); })});
    }
  }
  std::ifstream controls("/proc/sys/net/ipv4/tcp_available_congestion_control");
  for (std::string name; controls >> name;) platform.congestion_controls.push_back(name);
  platform.real_time = InChild(TryRealTime).empty();
  return platform;
}

absl::StatusOr<PacketWay> PacketPlatform::Best() const {
  std::string obstacles;
  for (const TriedWay& tried : ways) {
    if (tried.obstacle.empty()) return tried.way;
    obstacles += "\n  " + NameOf(tried.way) + ": " + tried.obstacle;
  }
  return FailedPrecondition("this machine does not allow packet emulation:%s", obstacles);
}

std::string NameOf(const PacketWay& way) {
  return std::string(way.user_namespace ? "unprivileged user namespace" : "own privileges") +
         (way.port == PortKind::kTun ? " with TUN devices" : " with veth pairs");
}

std::string Describe(const PacketPlatform& platform) {
  std::string text = "packets of the kernel's TCP through namespaces:\n";
  for (const TriedWay& tried : platform.ways) {
    text += absl::StrFormat("  %-48s %s\n", NameOf(tried.way),
                            tried.obstacle.empty() ? "works" : tried.obstacle);
  }
  text += "congestion controls of the kernel:";
  for (const std::string& name : platform.congestion_controls) text += " " + name;
  text += platform.real_time
              ? "\nreal-time priority for the shaper: yes\n"
              : "\nreal-time priority for the shaper: no (it may be late where others compute)\n";
  const auto best = platform.Best();
  text += "in-process shaper: works everywhere\n--shaper auto takes: ";
  return text + (best.ok() ? "packets, " + NameOf(*best) : std::string("inprocess")) + "\n";
}

}  // namespace skerry
