// Who gets in: keys, strangers, garbage, signals.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "scripted_actor.h"
#include "wire/interrupt.h"
#include "wire/open_files.h"
#include "wire/transport/connection_budget.h"

namespace skerry {
namespace {

// Asks the loop every few milliseconds of its own time until `done` says so; then stops it.
void StopWhen(Process& process, std::function<bool(const TransportCounters&)> done) {
  process.actor.on_timer = [&process, done](Context& c, TimerId) {
    if (done(process.loop->counters())) {
      c.Stop(0, "");
    } else {
      c.StartTimer(Duration::Millis(5));
    }
  };
  process.loop->Post([](Context& c) { c.StartTimer(Duration()); });
}

// A plain TCP connection from the loopback address `from` to a port of 127.0.0.1.
int Connect(const std::string& endpoint, const char* from = "127.0.0.1") {
  const auto port = static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(fd >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  REQUIRE(inet_pton(AF_INET, from, &address.sin_addr) == 1);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// A plain TCP connection that says `text`, until the other side closes it.
void Shout(const std::string& endpoint, const std::string& text) {
  const int fd = Connect(endpoint);
  REQUIRE(send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  shutdown(fd, SHUT_WR);
  char answer[256];
  while (recv(fd, answer, sizeof answer, 0) > 0) {
  }
  close(fd);
}

// A newcomer is heard and answered, after which both are at their end.
void CheckGetsIn(Process& coordinator, Process& node) {
  auto options = node.Options();
  options.coordinator = coordinator.address();
  node.Open(std::move(options));
  node.actor.on_start = [&](Context& c) { c.Send(coordinator.id(), Hello{}); };
  node.actor.on_message = [](Context& c, const NodeId&, const Message&) { c.Stop(0, ""); };
  coordinator.loop->Post([&](Context&) {
    coordinator.actor.on_message = [](Context& c, const NodeId& from, const Message&) {
      c.Send(from, Refused{""});
      c.Stop(0, "");
    };
  });
  node.Start();
  CHECK(node.Join() == "0");
  CHECK(coordinator.Join() == "0");
}

TEST_CASE("Admission: a node refuses keys it was not told of, and lets them in when it is",
          "[wire][loop][security]") {
  Process house(1), guest(2);
  house.Open(house.Options());
  guest.Open(guest.Options());
  guest.actor.on_start = [&](Context& c) {
    c.ConnectPeer(house.id(), house.loop->endpoint());
    c.Send(house.id(), Pong{1});
  };
  guest.actor.on_message = [](Context& c, const NodeId&, const Message&) { c.Stop(0, ""); };
  bool told = false;
  house.actor.on_timer = [&](Context& c, TimerId) {
    if (!told && house.loop->counters().refused_handshakes >= 1) {
      told = true;
      c.ConnectPeer(guest.id(), guest.loop->endpoint());
    }
    c.StartTimer(Duration::Millis(5));
  };
  house.actor.on_message = [&](Context& c, const NodeId& from, const Message&) {
    CHECK(told);
    c.Send(from, Pong{2});
    c.Stop(0, "");
  };
  house.loop->Post([](Context& c) { c.StartTimer(Duration()); });
  house.Start();
  guest.Start();
  CHECK(house.Join() == "0");
  CHECK(guest.Join() == "0");
}

TEST_CASE("Admission: of a stranger the coordinator's actor hears Hello and nothing else",
          "[wire][loop][security]") {
  Process coordinator(1), stranger(2);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  auto options = stranger.Options();
  options.coordinator = coordinator.address();
  stranger.Open(std::move(options));
  stranger.actor.on_start = [&](Context& c) {
    c.Send(coordinator.id(), Hello{});
    c.Send(coordinator.id(), Heartbeat{});
    c.Send(coordinator.id(), Ping{1, 1 << 20});
  };
  stranger.actor.on_message = [&](Context& c, const NodeId&, const Message& message) {
    CHECK(std::holds_alternative<Refused>(message));
    c.Stop(0, "");
  };
  int hellos = 0, others = 0;
  bool refused = false;
  coordinator.actor.on_message = [&](Context&, const NodeId&, const Message& message) {
    ++(std::holds_alternative<Hello>(message) ? hellos : others);
  };
  coordinator.actor.on_timer = [&](Context& c, TimerId) {
    if (coordinator.loop->counters().refused_unadmitted >= 2 && !refused) {
      refused = true;
      c.Send(stranger.id(), Refused{"no ticket"});
      c.Stop(0, "");
    }
    c.StartTimer(Duration::Millis(5));
  };
  coordinator.loop->Post([](Context& c) { c.StartTimer(Duration()); });
  coordinator.Start();
  stranger.Start();
  CHECK(coordinator.Join() == "0");
  CHECK(stranger.Join() == "0");
  CHECK(hellos == 1);
  CHECK(others == 0);
}

TEST_CASE("Admission: frames of another run are refused", "[wire][loop][security]") {
  Process coordinator(1), lost(2);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  auto options = lost.Options();
  options.coordinator = coordinator.address();
  options.run = RunId();
  lost.Open(std::move(options));
  lost.actor.on_start = [&](Context& c) { c.Send(coordinator.id(), Hello{}); };
  coordinator.actor.on_message = [](Context& c, const NodeId&, const Message&) {
    c.Stop(1, "heard it");
  };
  StopWhen(coordinator, [](const TransportCounters& n) { return n.refused_malformed == 1; });
  coordinator.Start();
  lost.Start();
  CHECK(coordinator.Join() == "0");
}

TEST_CASE("Admission: garbage at the port changes nothing and is counted",
          "[wire][loop][security]") {
  Process coordinator(1), node(2);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  coordinator.Start();
  std::string noise(4000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 89 + 41);
  Shout(coordinator.loop->endpoint(), "GET / HTTP/1.1\r\nHost: skerry\r\n\r\n");
  Shout(coordinator.loop->endpoint(), noise);
  Shout(coordinator.loop->endpoint(),
        std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(200, '\0'));

  CheckGetsIn(coordinator, node);
  const TransportCounters counters = coordinator.loop->counters();
  CHECK(counters.broken_connections == 3);
  CHECK(counters.frames_received >= 1);
}

TEST_CASE("Admission: silent connections of one address are ended beyond a number, others get in",
          "[wire][loop][security]") {
  RaiseOpenFileLimit();
  constexpr size_t kTooMany = 60, kSilent = ConnectionBudget::kYoungMax + kTooMany;
  REQUIRE(OpenFileLimit() > 4 * kSilent);
  Process coordinator(1), node(2);
  coordinator.Open(coordinator.Options(HostRole::kCoordinator));
  coordinator.Start();
  std::vector<pollfd> silent;
  for (size_t i = 0; i < kSilent; ++i)
    silent.push_back({Connect(coordinator.loop->endpoint(), "127.0.0.3"), POLLRDHUP, 0});
  size_t ended = 0;
  while (ended < kTooMany) {
    REQUIRE(poll(silent.data(), silent.size(), -1) > 0);
    for (pollfd& one : silent) {
      if (one.revents == 0) continue;
      close(one.fd);
      one.fd = -1;  // poll passes over it
      ++ended;
    }
  }
  CHECK(ended == kTooMany);

  CheckGetsIn(coordinator, node);
  for (const pollfd& one : silent) {
    if (one.fd >= 0) close(one.fd);
  }
}

TEST_CASE("EventLoop: the first SIGTERM lets the actor say goodbye", "[wire][loop]") {
  Process process(1);
  auto options = process.Options();
  options.handle_signals = true;
  options.on_interrupt = [](Context& c) { c.Stop(3, "left"); };
  process.Open(std::move(options));
  process.actor.on_start = [](Context&) { std::raise(SIGTERM); };
  process.Start();
  CHECK(process.Join() == "3");
}

TEST_CASE("EventLoop: an interrupted actor that does not stop is stopped", "[wire][loop]") {
  Process process(1);
  auto options = process.Options();
  options.handle_signals = true;
  options.on_interrupt = [](Context&) {};
  options.interrupt_grace = Duration::Millis(50);
  process.Open(std::move(options));
  process.actor.on_start = [](Context&) { std::raise(SIGINT); };
  process.Start();
  CHECK(process.Join() == std::to_string(kInterruptedExit));
}

// What a process of its own that runs `does` comes to: its exit code, or minus the signal's number.
int EndsAs(const std::function<void()>& does) {
  const pid_t child = fork();
  if (child == 0) {
    does();
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("EventLoop: a signal that comes when it is over takes the process nothing",
          "[wire][loop]") {
  const auto ends_as = [](int signals, int signal = SIGINT) {
    return EndsAs([=] {
      {
        const Bell bell;
        const InterruptWatch watch(bell);
      }
      for (int i = 0; i < signals; ++i) std::raise(signal);
    });
  };
  CHECK(ends_as(0) == 7);
  CHECK(ends_as(1) == 7);
  CHECK(ends_as(2) == kInterruptedExit);
  CHECK(ends_as(2, SIGHUP) == 7);
}

TEST_CASE("Interrupts: a terminal that closes is one, unless it is to be ignored", "[wire][loop]") {
  const auto ends_as = [](bool is_ignored) {
    return EndsAs([=] {
      if (is_ignored) std::signal(SIGHUP, SIG_IGN);
      const Bell bell;
      const InterruptWatch watch(bell);
      std::raise(SIGHUP);
      std::raise(SIGHUP);
      if (watch.Interrupted()) _exit(8);
    });
  };
  CHECK(ends_as(false) == 8);
  CHECK(ends_as(true) == 7);
}

TEST_CASE("Interrupts: that nobody reads what it prints ends no process", "[wire][loop]") {
  CHECK(EndsAs([] {
          CatchInterrupts();
          int ends[2];
          if (pipe(ends) != 0) _exit(1);
          close(ends[0]);
          if (write(ends[1], "a line", 6) != -1) _exit(2);
        }) == 7);
}

TEST_CASE("Interrupts: before there is a loop the first ends the process, with its exit code",
          "[wire][loop]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CHECK(EndsAs([=] {
            CatchInterrupts();
            std::raise(signal);
          }) == kInterruptedExit);
  }
}

}  // namespace
}  // namespace skerry
