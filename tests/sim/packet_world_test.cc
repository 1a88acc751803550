// The live part: packets of this machine's own kernel, where it lets us. No figure here depends on
// how fast or idle the machine is.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "sim/child_process.h"
#include "sim/packet/packet_plan.h"
#include "sim/packet/packet_world.h"
#include "tests/sim/flow_player.h"

using namespace skerry;
using namespace skerry::testing;

namespace {

// The ways that this machine allows without moving the test program into a user namespace.
std::vector<PacketWay> OwnWays() {
  std::vector<PacketWay> ways;
  for (const TriedWay& tried : ProbePacketPlatform().ways) {
    if (tried.obstacle.empty() && !tried.way.user_namespace) ways.push_back(tried.way);
  }
  return ways;
}

bool Skip(const std::string& why) {
  WARN("skipped: " << why);
  return true;
}

int SocketIn(const NetNamespace& node) {
  int fd = -1;
  REQUIRE(node.Run([&] {
                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                return absl::OkStatus();
              })
              .ok());
  REQUIRE(fd >= 0);
  return fd;
}

// Sends `sent` from node 0 to node 1 over TCP; what arrived.
std::string Carry(const PacketWorld& world, const std::string& sent) {
  const int listener = SocketIn(world.node(1)), client = SocketIn(world.node(0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(PacketAddress(1));
  socklen_t size = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(connect(client, reinterpret_cast<sockaddr*>(&address), size) == 0);
  const int server = accept(listener, nullptr, nullptr);
  std::thread writer([&] {
    for (size_t done = 0; done < sent.size();) {
      const ssize_t n = write(client, sent.data() + done, sent.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    shutdown(client, SHUT_WR);
  });
  std::string got;
  char buffer[65536];
  for (ssize_t n = 0; (n = read(server, buffer, sizeof buffer)) > 0;)
    got.append(buffer, static_cast<size_t>(n));
  writer.join();
  for (const int fd : {listener, client, server}) close(fd);
  return got;
}

NetworkSpec FastAndLossy() {
  NetworkSpec spec = TwoSites(1000, Duration::Millis(2), CongestionControl::kBbr);
  spec.paths[1].loss = 0.01;
  return spec;
}

}  // namespace

TEST_CASE("PacketWorld: the kernel's TCP carries every byte through a lossy network") {
  const std::vector<PacketWay> ways = OwnWays();
  if (ways.empty() && Skip(Describe(ProbePacketPlatform()))) return;
  std::string sent(600'000, ' ');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(Mix64(i));
  for (const PacketWay& way : ways) {
    INFO(NameOf(way));
    auto world = PacketWorld::CreateThisWay(way, FastAndLossy(), {});
    INFO(world.status());
    REQUIRE(world.ok());
    CHECK((Carry(**world, sent) == sent));
    const HubReport report = (*world)->hub().TakeReport();
    CHECK(report.packets.lost > 0);  // 400 segments; the same ones every time
    CHECK(report.packets.delivered > 400);
    CHECK(report.refused == 0);
    // What was told is not told again.
    CHECK((*world)->hub().TakeReport().packets.lost == 0);
  }
}

TEST_CASE("PacketWorld: an unprivileged user namespace carries it too") {
  const PacketPlatform platform = ProbePacketPlatform();
  for (const TriedWay& tried : platform.ways) {
    if (!tried.way.user_namespace) continue;
    if (!tried.obstacle.empty() && Skip(NameOf(tried.way) + ": " + tried.obstacle)) continue;
    INFO(NameOf(tried.way));
    // In a child: there is no way back out of a user namespace.
    const pid_t pid = fork();
    if (pid == 0) {
      auto world = PacketWorld::CreateThisWay(tried.way, FastAndLossy(), {});
      const std::string sent(100'000, 'x');
      _exit(world.ok() && Carry(**world, sent) == sent ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
  }
}

TEST_CASE("PacketWorld: after kill -9 nothing is left, no process, no namespace, no name") {
  if (OwnWays().empty() && Skip("this machine allows it only within a user namespace")) return;
  namespace fs = std::filesystem;
  const auto names = [] {
    std::error_code error;
    size_t count = 0;
    for (fs::directory_iterator at("/run/netns", error), end; !error && at != end; ++at) ++count;
    return count;
  };
  const size_t names_before = names();
  int ready[2], held[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(held) == 0);
  const pid_t emulator = fork();
  if (emulator == 0) {
    auto world = PacketWorld::Create(FastAndLossy(), {});
    if (!world.ok()) _exit(1);
    // A node's process, which holds the writing end of `held` while it lives.
    auto node = ChildProcess::Start({"sleep", "1000"}, "", (*world)->node(0).fd());
    const int fd = (*world)->node(0).fd();
    const fs::path name = fs::read_symlink("/proc/self/fd/" + std::to_string(fd));
    const fs::path lives_in = "/proc/" + std::to_string(node->pid()) + "/ns/net";
    while (fs::read_symlink(lives_in) != name) std::this_thread::yield();
    const bool said = write(ready[1], name.c_str(), name.native().size()) > 0;
    pause();
    _exit(said ? 2 : 3);
  }
  close(ready[1]);
  close(held[1]);
  char name[64] = {};
  REQUIRE(read(ready[0], name, sizeof name - 1) > 0);
  CHECK(std::string(name).rfind("net:[", 0) == 0);
  REQUIRE(kill(emulator, SIGKILL) == 0);
  REQUIRE(waitpid(emulator, nullptr, 0) == emulator);

  char nothing = 0;
  CHECK(read(held[0], &nothing, 1) == 0);  // the node's process has ended too
  CHECK(names() == names_before);
  // Nobody is in that namespace; without name, process and descriptor the kernel removes it.
  for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
    std::error_code error;
    const fs::path lives_in = fs::read_symlink(process.path() / "ns" / "net", error);
    CHECK((error || lives_in != fs::path(name)));
  }
  for (const int fd : {ready[0], held[0]}) close(fd);
}

TEST_CASE("PacketPlatform: where nothing works, every obstacle is named") {
  PacketPlatform platform;
  platform.ways = {{{false, PortKind::kTun}, "/dev/net/tun: Permission denied"},
                   {{true, PortKind::kVeth}, "no user namespaces: Operation not permitted"}};
  const auto best = platform.Best();
  REQUIRE(absl::IsFailedPrecondition(best.status()));
  const std::string text(best.status().message());
  CHECK(text.find("/dev/net/tun: Permission denied") != std::string::npos);
  CHECK(text.find("no user namespaces") != std::string::npos);
  CHECK(Describe(platform).find("--shaper auto takes: inprocess") != std::string::npos);
}
