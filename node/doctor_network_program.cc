// What the doctor finds on the way to others.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/status.h"
#include "node/doctor_program.h"
#include "node/join_program.h"
#include "node/own_addresses.h"
#include "wire/ticket.h"
#include "wire/transport/path_asker.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int kPatienceMs = 4000;

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct Place {
  std::string host, port;
};

// Of "tcp://host:port" or the first of several.
Place PlaceOf(std::string endpoint) {
  endpoint = endpoint.substr(0, endpoint.find(','));
  if (endpoint.starts_with("tcp://")) endpoint.erase(0, 6);
  const size_t colon = endpoint.rfind(':');
  Place place{endpoint.substr(0, colon), endpoint.substr(colon + 1)};
  if (place.host.starts_with('[')) place.host = place.host.substr(1, place.host.size() - 2);
  return place;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Finding Dns(const Place& place, Addresses* addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &list);
  if (failed != 0) {
    return {"DNS", Health::kBad, place.host + ": " + gai_strerror(failed),
            "the name in the ticket leads nowhere from here",
            "check /etc/resolv.conf and the network; ask the operator whether the name is right"};
  }
  addresses->reset(list);
  return {"DNS", Health::kGood, place.host + " is found", "", ""};
}

// A connection to the coordinator, or why there is none.
struct Dialled {
  int socket = -1;
  double connect_ms = 0;
  std::string why;
  Dialled() = default;
  Dialled(Dialled&& other) noexcept
      : socket(std::exchange(other.socket, -1)),
        connect_ms(other.connect_ms),
        why(std::move(other.why)) {}
  ~Dialled() {
    if (socket >= 0) close(socket);
  }
};

Dialled Dial(const addrinfo* list) {
  Dialled dialled;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const auto began = std::chrono::steady_clock::now();
    int error = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd ready{fd, POLLOUT, 0};
      error = ETIMEDOUT;
      socklen_t size = sizeof error;
      if (poll(&ready, 1, kPatienceMs) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      dialled.socket = fd;
      dialled.connect_ms =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
              .count();
      return dialled;
    }
    dialled.why = std::strerror(error);
    close(fd);
  }
  return dialled;
}

Finding Outbound(const Dialled& dialled, const Place& place) {
  const std::string where = place.host + ":" + place.port;
  if (dialled.socket >= 0) {
    return {"outbound", Health::kGood,
            absl::StrFormat("%s answers after %.1f ms", where, dialled.connect_ms), "", ""};
  }
  return {"outbound", Health::kBad, where + ": " + dialled.why,
          "the coordinator is not running, its port is closed, or a firewall here lets TCP to that "
          "port not out",
          "ask the operator whether it runs; try: nc -vz " + place.host + " " + place.port};
}

// Whoever speaks ZMTP greets at once: 0xFF, eight bytes, 0x7F.
Finding RunReachable(const Dialled& dialled) {
  uint8_t greeting[10] = {};
  pollfd ready{dialled.socket, POLLIN, 0};
  const bool answers = poll(&ready, 1, kPatienceMs) == 1 &&
                       recv(dialled.socket, greeting, sizeof greeting, MSG_WAITALL) == 10 &&
                       greeting[0] == 0xff && greeting[9] == 0x7f;
  if (answers)
    return {"run", Health::kGood, "what answers there speaks as a coordinator does", "", ""};
  return {"run", Health::kBad, "what answers there is no coordinator",
          "another program has the port, or a proxy answers in its place",
          "ask the operator for the right address: skerry-coordinator ticket DIR --advertise …"};
}

// The other end's address in numbers, "tcp://address:port"; "" if the system does not say.
std::string EndpointOf(const Dialled& dialled) {
  sockaddr_storage other{};
  socklen_t size = sizeof other;
  auto* const address = reinterpret_cast<sockaddr*>(&other);
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (getpeername(dialled.socket, address, &size) != 0 ||
      getnameinfo(address, size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "";
  const std::string name = other.ss_family == AF_INET6 ? absl::StrFormat("[%s]", host) : host;
  return "tcp://" + name + ":" + port;
}

int OptionOf(const Dialled& dialled, int level, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(dialled.socket, level, option, &value, &size) == 0 ? value : 0;
}

Finding Hole(const PathVerdict& path, const std::string& interface) {
  return {
      "MTU", Health::kBad,
      absl::StrFormat("packets of %d bytes pass to the coordinator and back, those of %d do not",
                      path.passes, path.lost),
      "a tunnel, VPN or router on the way drops large packets and does not say so: connections "
      "stand and small messages pass, but data and parameters never arrive",
      absl::StrFormat("as root: ip link set dev %s mtu %d; then run this again. Better, where you "
                      "can: the same MTU in the router or VPN, or TCP's MSS clamped to it there",
                      interface.empty() ? "INTERFACE" : interface, path.passes)};
}

Finding Mtu(const Dialled& dialled, const NodeId& coordinator) {
  const int segment = OptionOf(dialled, IPPROTO_TCP, TCP_MAXSEG);
  int mtu = OptionOf(dialled, IPPROTO_IP, IP_MTU);
  if (mtu == 0) mtu = OptionOf(dialled, IPPROTO_IPV6, IPV6_MTU);
  if (segment == 0 || mtu <= segment)
    return {"MTU", Health::kUnknown, "the system does not say", "", ""};
  const PathVerdict path = AskPath(coordinator, EndpointOf(dialled), {mtu, mtu - segment});
  if (path.is == PathIs::kHole) return Hole(path, InterfaceTowards(dialled.socket));
  Finding finding{"MTU", Health::kGood,
                  absl::StrFormat("packets of %d bytes pass to the coordinator and back", mtu), "",
                  ""};
  constexpr int kSegmentWanted = 1200;
  if (path.is == PathIs::kUnasked) {
    finding.health = Health::kUnknown;
    finding.found = absl::StrFormat(
        "packets may have %d bytes; the coordinator does not say whether those pass", mtu);
  } else if (path.is == PathIs::kLossy) {
    finding.health = Health::kPoor;
    finding.found = absl::StrFormat("no answer to packets of %d bytes", mtu);
    finding.cause = "the way loses many packets, or the coordinator has stopped answering";
    finding.remedy = "run this again; a cable instead of radio";
  } else if (segment < kSegmentWanted) {
    finding.health = Health::kPoor;
    finding.cause =
        "a tunnel or a wrong setting makes packets small: more of the line goes to headers";
    finding.remedy = "ip link shows the MTU of each interface; 1500 is usual";
  }
  return finding;
}

Finding CongestionControl() {
  const std::string name = FirstLine("/proc/sys/net/ipv4/tcp_congestion_control");
  if (name.empty()) return {"congestion", Health::kUnknown, "the system does not say", "", ""};
  if (name == "bbr") return {"congestion", Health::kGood, "bbr", "", ""};
  return {"congestion", Health::kPoor, name,
          "with losses, as on radio links, one flow gets a small share of the line; Skerry uses "
          "several to make up for it",
          "as root, if you like: sysctl net.ipv4.tcp_congestion_control=bbr"};
}

Finding Buffers() {
  constexpr int64_t kWanted = 3 << 20;
  int64_t least = INT64_MAX;
  for (const char* path : {"/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"}) {
    std::ifstream file(path);
    int64_t low = 0, usual = 0, high = 0;
    if (file >> low >> usual >> high) least = std::min(least, high);
  }
  if (least == INT64_MAX) return {"buffers", Health::kUnknown, "the system does not say", "", ""};
  Finding finding{"buffers", Health::kGood,
                  absl::StrFormat("a flow may have %.1f MB under way", 1e-6 * double(least)), "",
                  ""};
  if (least >= kWanted) return finding;
  finding.health = Health::kPoor;
  finding.cause = "on a long way a flow is as fast as its buffer is large";
  finding.remedy = "as root: sysctl net.ipv4.tcp_rmem and tcp_wmem, last number 6291456";
  return finding;
}

// Only somebody outside can tell whether this machine can be dialled: a coordinator did, at the
// last join.
Finding Reachable(const std::string& home) {
  std::string own;
  for (const std::string& address : OwnAddresses()) own += (own.empty() ? "" : ", ") + address;
  const std::string here = "addresses of this machine: " + (own.empty() ? "none" : own);
  const std::string told = FirstLine((fs::path(home) / kReachFile).c_str());
  if (own.empty()) {
    return {"reachability", Health::kBad, here, "it is in no network",
            "connect it; ip address shows what there is"};
  }
  if (told.empty()) {
    return {"reachability", Health::kUnknown,
            here +
                "; whether others can dial it shows when it joins a run; behind a router it "
                "takes part too",
            "", ""};
  }
  return {"reachability", Health::kGood, here + "; at the last join: " + told, "", ""};
}

// As the last join saw it, in the node's own status.
Finding Bandwidth(const std::string& home) {
  std::ifstream file(fs::path(home) / "status.json");
  const auto status = nlohmann::json::parse(file, nullptr, false);
  const double up = status.is_object() ? status.value("peak_up_mbit", 0.0) : 0;
  const double down = status.is_object() ? status.value("peak_down_mbit", 0.0) : 0;
  // Of a join that reached nobody only its own greetings were counted.
  constexpr double kNothing = 0.05;
  if (up < kNothing && down < kNothing) {
    return {"bandwidth", Health::kUnknown, "not measured: a run measures it when this node joins",
            "", ""};
  }
  constexpr double kWanted = 5;
  Finding finding{"bandwidth", up >= kWanted ? Health::kGood : Health::kPoor,
                  absl::StrFormat("at best %.1f Mbit/s up, %.1f down in the last run", up, down),
                  "", ""};
  if (finding.health == Health::kGood) return finding;
  finding.cause = absl::StrFormat("below %.0f Mbit/s a node gets little work", kWanted);
  finding.remedy = "a cable instead of radio; skerry-node limit shows whether limits hold it back";
  return finding;
}

Finding TicketOf(const std::string& text, std::optional<Ticket>* ticket) {
  const auto verified = VerifyTicket(text, std::time(nullptr));
  if (!verified.ok()) {
    const auto decoded = DecodeTicket(text);
    if (decoded.ok()) *ticket = *decoded;
    return {"ticket", Health::kBad, ErrorText(verified.status()), "no coordinator would take it",
            "ask the operator for a new one"};
  }
  *ticket = *verified;
  const double hours = static_cast<double>(verified->expires_unix - std::time(nullptr)) / 3600;
  return {"ticket", Health::kGood,
          absl::StrFormat("for %s, good for %.1f hours more", verified->endpoint, hours), "", ""};
}

}  // namespace

std::vector<Finding> CheckNetwork(const DoctorOptions& options) {
  std::vector<Finding> findings = {CongestionControl(),
                                   Buffers(),
                                   Reachable(options.home),
                                   Bandwidth(options.home),
                                   {"version", Health::kGood, kNodeSoftware, "", ""}};
  std::optional<Ticket> ticket;
  if (!options.ticket.empty()) findings.push_back(TicketOf(options.ticket, &ticket));
  if (!ticket) {
    for (const char* check : {"ticket", "DNS", "outbound", "run", "MTU"}) {
      if (check == std::string("ticket") && !options.ticket.empty()) continue;
      findings.push_back(
          {check, Health::kUnknown, "wants a ticket: doctor --ticket TICKET", "", ""});
    }
    return findings;
  }
  const Place place = PlaceOf(ticket->endpoint);
  Addresses addresses;
  findings.push_back(Dns(place, &addresses));
  const Dialled dialled = Dial(addresses.get());
  if (addresses) findings.push_back(Outbound(dialled, place));
  if (dialled.socket >= 0) {
    findings.push_back(RunReachable(dialled));
    findings.push_back(Mtu(dialled, ticket->coordinator));
  }
  return findings;
}

}  // namespace skerry
