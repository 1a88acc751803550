#include "bench/real_transfers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "sim/packet/packet_plan.h"

namespace skerry::bench {
namespace {

constexpr int kIpUdpBytes = 28;
constexpr size_t kBufferBytes = 256 * 1024;
constexpr double kGraceSeconds = 0.6;  // for the last packets to arrive

void Must(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "fidelity: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

sockaddr_in AddressOf(int32_t node, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(PacketAddress(node));
  address.sin_port = htons(port);
  return address;
}

int OpenSocket(const PacketWorld& world, int32_t node, int type) {
  int fd = -1;
  const absl::Status status = world.node(node).Run([&] {
    fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    return absl::OkStatus();
  });
  Must(status.ok() && fd >= 0, "socket");
  return fd;
}

// Bound to a free port, which is returned in `address`.
void Bind(int fd, int32_t node, sockaddr_in& address) {
  address = AddressOf(node, 0);
  socklen_t size = sizeof address;
  Must(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  Must(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
}

void SleepUntil(double seconds) {
  const double whole = static_cast<double>(static_cast<int64_t>(seconds));
  timespec time{};
  time.tv_sec = static_cast<time_t>(whole);
  time.tv_nsec = static_cast<long>((seconds - whole) * 1e9);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

// False after `seconds` without anything to read.
bool WaitReadable(int fd, double seconds) {
  pollfd end{fd, POLLIN, 0};
  return poll(&end, 1, static_cast<int>(seconds * 1e3)) > 0;
}

}  // namespace

double WallSeconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void PreferThisThread() {
  sched_param priority{};
  priority.sched_priority = 5;
  pthread_setschedparam(pthread_self(), SCHED_RR, &priority);
}

TcpPath::TcpPath(const PacketWorld& world, int32_t from, int32_t to) {
  const int listener = OpenSocket(world, to, SOCK_STREAM);
  sockaddr_in address{};
  Bind(listener, to, address);
  Must(listen(listener, 1) == 0, "listen");
  client_ = OpenSocket(world, from, SOCK_STREAM);
  Must(connect(client_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect");
  server_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  Must(server_ >= 0, "accept");
  close(listener);
  const int one = 1;
  for (const int fd : {client_, server_})
    Must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
}

TcpPath::~TcpPath() {
  close(client_);
  close(server_);
}

double TcpPath::TransferSeconds(int64_t bytes) {
  std::thread receiver([this, bytes] {
    PreferThisThread();
    std::vector<char> buffer(kBufferBytes);
    for (int64_t left = bytes; left > 0;) {
      const ssize_t got = read(server_, buffer.data(), buffer.size());
      Must(got > 0, "read");
      left -= got;
    }
    Must(write(server_, buffer.data(), 1) == 1, "write");
  });
  const std::vector<char> buffer(kBufferBytes);
  const double start = WallSeconds();
  for (int64_t left = bytes; left > 0;) {
    const auto part = std::min(left, static_cast<int64_t>(buffer.size()));
    const ssize_t wrote = write(client_, buffer.data(), static_cast<size_t>(part));
    Must(wrote > 0, "write");
    left -= wrote;
  }
  char answer = 0;
  Must(read(client_, &answer, 1) == 1, "read");
  const double end = WallSeconds();
  receiver.join();
  return end - start;
}

std::vector<double> UdpRoundTrips(const PacketWorld& world, int32_t from, int32_t to, int probes,
                                  double every_s) {
  const int client = OpenSocket(world, from, SOCK_DGRAM);
  const int server = OpenSocket(world, to, SOCK_DGRAM);
  sockaddr_in here{}, there{};
  Bind(client, from, here);
  Bind(server, to, there);
  std::thread echo([&] {
    PreferThisThread();
    std::array<char, kProbeBytes> bytes;
    while (WaitReadable(server, 2)) {
      const ssize_t size = recv(server, bytes.data(), bytes.size(), 0);
      if (size > 0)
        sendto(server, bytes.data(), static_cast<size_t>(size), 0,
               reinterpret_cast<sockaddr*>(&here), sizeof here);
    }
  });
  std::vector<double> sent(static_cast<size_t>(probes)), took;
  std::thread sender([&] {
    PreferThisThread();
    std::array<char, kProbeBytes - kIpUdpBytes> bytes{};
    const double start = WallSeconds();
    for (int i = 0; i < probes; ++i) {
      SleepUntil(start + every_s * i);
      std::memcpy(bytes.data(), &i, sizeof i);
      sent[static_cast<size_t>(i)] = WallSeconds();
      sendto(client, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&there),
             sizeof there);
    }
  });
  PreferThisThread();
  std::array<char, kProbeBytes> bytes;
  while (took.size() < sent.size() && WaitReadable(client, 2)) {
    if (recv(client, bytes.data(), bytes.size(), 0) <= 0) continue;
    int number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    took.push_back(WallSeconds() - sent[static_cast<size_t>(number)]);
  }
  sender.join();
  echo.join();
  close(client);
  close(server);
  return took;
}

UdpCount UdpStream(const PacketWorld& world, int32_t from, int32_t to, int packet_bytes,
                   double bytes_per_s, double seconds) {
  const int client = OpenSocket(world, from, SOCK_DGRAM);
  const int server = OpenSocket(world, to, SOCK_DGRAM);
  sockaddr_in there{};
  Bind(server, to, there);
  const int buffer_bytes = 16 << 20;
  setsockopt(server, SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
  UdpCount count;
  std::atomic<bool> sending{true};
  std::thread receiver([&] {
    PreferThisThread();
    constexpr unsigned kBatch = 64;
    std::vector<char> bytes(2048);
    std::array<iovec, kBatch> parts;
    std::array<mmsghdr, kBatch> messages{};
    for (unsigned i = 0; i < kBatch; ++i) {
      parts[i] = {bytes.data(), bytes.size()};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    double first = 0, last = 0;
    int64_t before = 0;
    while (WaitReadable(server, sending ? 1 : kGraceSeconds) || sending) {
      const int got = recvmmsg(server, messages.data(), kBatch, MSG_DONTWAIT, nullptr);
      if (got <= 0) continue;
      last = WallSeconds();
      count.received += got;
      if (first == 0) {
        first = last;
        before = count.received;
      }
    }
    if (last > first) {
      const auto bytes_between = static_cast<double>((count.received - before) * packet_bytes);
      count.bytes_per_s = bytes_between / (last - first);
    }
  });
  PreferThisThread();
  std::vector<char> bytes(static_cast<size_t>(packet_bytes - kIpUdpBytes));
  const double start = WallSeconds();
  const auto total = static_cast<int64_t>(bytes_per_s * seconds / packet_bytes);
  while (count.sent < total) {
    SleepUntil(start + static_cast<double>(count.sent) * packet_bytes / bytes_per_s);
    const double allowed = (WallSeconds() - start) * bytes_per_s / packet_bytes;
    while (count.sent < total && static_cast<double>(count.sent) <= allowed) {
      sendto(client, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&there),
             sizeof there);
      ++count.sent;
    }
  }
  sending = false;
  receiver.join();
  close(client);
  close(server);
  return count;
}

double TcpGoodput(const PacketWorld& world, int32_t from, int32_t to, int flows, double warm_up_s,
                  double seconds) {
  std::vector<std::unique_ptr<TcpPath>> paths;
  for (int i = 0; i < flows; ++i) paths.push_back(std::make_unique<TcpPath>(world, from, to));
  std::atomic<int64_t> received{0};
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    AtOnce(2 * flows, [&](int i) {
      const TcpPath& path = *paths[static_cast<size_t>(i / 2)];
      std::vector<char> buffer(kBufferBytes);
      while (!stop) {
        const ssize_t n = i % 2 == 0
                              ? send(path.client(), buffer.data(), buffer.size(), MSG_NOSIGNAL)
                              : read(path.server(), buffer.data(), buffer.size());
        if (n <= 0) return;
        if (i % 2 == 1) received += n;
      }
      shutdown(path.client(), SHUT_RDWR);
      shutdown(path.server(), SHUT_RDWR);
    });
  });
  PreferThisThread();
  const double start = WallSeconds() + warm_up_s;
  SleepUntil(start);
  const double from_s = WallSeconds();
  const int64_t before = received;
  SleepUntil(start + seconds);
  const double bytes = static_cast<double>(received - before);
  const double rate = bytes / (WallSeconds() - from_s);
  stop = true;
  for (const auto& path : paths) {
    shutdown(path->client(), SHUT_RDWR);
    shutdown(path->server(), SHUT_RDWR);
  }
  flood.join();
  return rate;
}

void AtOnce(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace skerry::bench
