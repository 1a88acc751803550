#include "bench/siege/hostile_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "common/check.h"

namespace skerry::siege {
namespace {

constexpr int kPatienceMs = 1000;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool IsReady(int descriptor, short events, int milliseconds) {
  pollfd wait{descriptor, events, 0};
  return poll(&wait, 1, milliseconds) > 0;
}

std::string Length(uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8)
    bytes += static_cast<char>(static_cast<uint8_t>(value >> shift));
  return bytes;
}

std::string Noise(size_t bytes, uint32_t seed) {
  std::string noise(bytes, '\0');
  for (char& c : noise) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return noise;
}

}  // namespace

RawSocket::RawSocket(uint16_t port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in to = Loopback(port);
  if (connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return;
  close(descriptor_);
  descriptor_ = -1;
}

RawSocket::~RawSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

int64_t RawSocket::Send(const std::string& bytes) {
  size_t sent = 0;
  while (IsOpen() && sent < bytes.size() && IsReady(descriptor_, POLLOUT, kPatienceMs)) {
    const ssize_t took =
        send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (took <= 0) break;
    sent += static_cast<size_t>(took);
  }
  return static_cast<int64_t>(sent);
}

std::string RawSocket::Receive(int silence_ms, size_t bytes_max) {
  std::string all;
  std::array<char, 4096> piece{};
  while (IsOpen() && all.size() < bytes_max && IsReady(descriptor_, POLLIN, silence_ms)) {
    const ssize_t got = recv(descriptor_, piece.data(), piece.size(), 0);
    if (got <= 0) break;
    all.append(piece.data(), static_cast<size_t>(got));
  }
  return all;
}

uint16_t PortOf(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

std::string CurveGreeting() {
  std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0", 12);
  greeting += "CURVE";
  greeting.resize(64, '\0');
  return greeting;
}

// A connection that is ended at once, as beyond the budget of connections, takes nothing: it counts
// as so much junk, or this would go on for ever.
constexpr int64_t kRefusedCounts = 64 << 10;

int64_t SendJunk(uint16_t port, int64_t bytes) {
  static const std::string piece = Noise(1 << 20, 7);
  int64_t sent = 0;
  for (int kind = 0; sent < bytes; ++kind) {
    RawSocket socket(port);
    if (!socket.IsOpen()) return sent;
    // Of every third the greeting is right, every third looks like ZeroMQ's oldest protocol.
    if (kind % 3 == 1) socket.Send(CurveGreeting());
    if (kind % 3 == 2) socket.Send(std::string("\x01\x00", 2));
    for (int64_t before = -1; before != sent && sent < bytes;) {
      before = sent;
      sent += socket.Send(piece);
    }
    sent += kRefusedCounts;
  }
  return sent;
}

void SendLengthBombs(uint16_t port, int times) {
  const std::array<uint64_t, 6> lengths = {~uint64_t{0},      ~uint64_t{0} >> 1,
                                           uint64_t{1} << 40, (uint64_t{1} << 31) + 1,
                                           5 << 20,           (4 << 20) - 1};
  for (int i = 0; i < times; ++i) {
    for (const uint64_t length : lengths) {
      for (const char flags : {'\x02', '\x03', '\x06'}) {  // long message, more of it, long command
        RawSocket socket(port);
        socket.Send(CurveGreeting());
        socket.Receive(20);
        socket.Send(std::string(1, flags) + Length(length) + Noise(512, 3));
        socket.Receive(1);
      }
    }
  }
}

void SendSplitGreetings(uint16_t port, int pause_ms) {
  const std::string greeting = CurveGreeting();
  for (const size_t stop : {size_t{1}, size_t{9}, size_t{10}, size_t{11}, size_t{31}, size_t{63}}) {
    RawSocket socket(port);
    for (size_t i = 0; i <= stop && i < greeting.size(); ++i) {
      socket.Send(greeting.substr(i, 1));
      socket.Receive(pause_ms);
    }
  }
}

std::vector<RawSocket> OpenHalf(uint16_t port, int connections) {
  std::vector<RawSocket> open;
  const std::string greeting = CurveGreeting();
  for (int i = 0; i < connections; ++i) {
    open.emplace_back(port);
    if (!open.back().IsOpen()) break;
    if (i % 2 == 1) open.back().Send(greeting.substr(0, static_cast<size_t>(i % 64)));
  }
  return open;
}

void Replay(uint16_t port, const std::vector<std::string>& said) {
  for (const std::string& bytes : said) {
    {
      RawSocket at_once(port);
      at_once.Send(bytes);
      at_once.Receive(50);
    }
    // As the victim did: the greeting, what comes next when the other side has answered.
    RawSocket in_turn(port);
    constexpr size_t kGreeting = 64, kPieces = 3;
    in_turn.Send(bytes.substr(0, kGreeting));
    in_turn.Receive(50);
    for (size_t at = kGreeting, i = 0; at < bytes.size() && i < kPieces; at += 512, ++i) {
      in_turn.Send(bytes.substr(at, 512));
      in_turn.Receive(20);
    }
  }
}

RecordingProxy::RecordingProxy(uint16_t to)
    : to_(to), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  SKERRY_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                   listen(listener_, 16) == 0 &&
                   getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0,
               "a proxy on loopback");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

RecordingProxy::~RecordingProxy() {
  Stop();
  close(listener_);
}

std::vector<std::string> RecordingProxy::Stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
  return said_;
}

void RecordingProxy::Run() {
  struct Pair {
    RawSocket victim, server;
    size_t index;
  };
  std::vector<Pair> pairs;
  std::array<char, 1 << 16> piece{};
  // False: the connection is over.
  const auto pump = [&](int from, RawSocket& to, std::string* kept) {
    const ssize_t got = recv(from, piece.data(), piece.size(), 0);
    if (got <= 0) return false;
    const std::string bytes(piece.data(), static_cast<size_t>(got));
    if (kept != nullptr) kept->append(bytes);
    return to.Send(bytes) == static_cast<int64_t>(bytes.size());
  };
  while (!stops_) {
    std::vector<pollfd> waits = {{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs) {
      waits.push_back({pair.victim.descriptor(), POLLIN, 0});
      waits.push_back({pair.server.descriptor(), POLLIN, 0});
    }
    constexpr int kLookMs = 20;
    poll(waits.data(), waits.size(), kLookMs);
    std::vector<Pair> living;
    for (size_t i = 0; i < pairs.size(); ++i) {
      bool lives = true;
      if (waits[2 * i + 1].revents != 0)
        lives = pump(waits[2 * i + 1].fd, pairs[i].server, &said_[pairs[i].index]);
      if (lives && waits[2 * i + 2].revents != 0)
        lives = pump(waits[2 * i + 2].fd, pairs[i].victim, nullptr);
      if (lives)
        living.push_back({std::move(pairs[i].victim), std::move(pairs[i].server), pairs[i].index});
    }
    pairs.swap(living);
    if ((waits[0].revents & POLLIN) == 0) continue;
    said_.emplace_back();
    pairs.push_back({RawSocket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)), RawSocket(to_),
                     said_.size() - 1});
  }
}

int64_t ResidentKb(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

}  // namespace skerry::siege
