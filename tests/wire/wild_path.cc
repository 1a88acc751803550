#include "wild_path.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "common/check.h"
#include "wire/wakeup.h"

namespace skerry {
namespace {

constexpr int kTurnMs = 5;
constexpr size_t kBufferBytes = 64 << 10;

sockaddr_in Local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int PortIn(const std::string& endpoint) {
  return std::atoi(endpoint.c_str() + endpoint.rfind(':') + 1);
}

}  // namespace

// Ends 0 and 1: who dialled, the target. What came from end i waits in waiting[i].
struct WildPath::Connection {
  std::array<int, 2> ends = {-1, -1};
  std::array<std::vector<char>, 2> waiting;
  int64_t carried = 0, carried_back = 0;
  bool dead = false;
  ~Connection() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
};

WildPath::WildPath(const std::string& target) : target_port_(PortIn(target)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address = Local(0);
  socklen_t size = sizeof address;
  SKERRY_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               listen(listener_, 64) == 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  SKERRY_CHECK(pipe2(bell_, O_NONBLOCK | O_CLOEXEC) == 0);
  thread_ = std::thread([this] { Run(); });
}

WildPath::~WildPath() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  static_cast<void>(write(bell_[1], "!", 1) == 1);
  thread_.join();
  close(listener_);
  close(bell_[0]);
  close(bell_[1]);
}

void WildPath::BreakEvery(int64_t bytes, uint64_t seed) {
  const std::lock_guard lock(mutex_);
  break_every_ = bytes;
  next_break_ = carried_ + bytes;
  rng_ = Rng(seed);
}

void WildPath::CloseAfter(int64_t bytes, std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  close_after_ = bytes;
  when_closed_ = std::move(then);
}

void WildPath::Hold(bool to_target, bool from_target) {
  const std::lock_guard lock(mutex_);
  holds_[1] = to_target;
  holds_[0] = from_target;
}

void WildPath::BreakAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) connection->dead = true;
}

void WildPath::HoldOldest(bool holds) {
  const std::lock_guard lock(mutex_);
  holds_oldest_ = holds;
}

void WildPath::SetRate(double bytes_per_s) {
  const std::lock_guard lock(mutex_);
  bytes_per_s_ = bytes_per_s;
  allowance_ = 0;
}

int64_t WildPath::carried_most() const {
  const std::lock_guard lock(mutex_);
  return carried_most_;
}

int64_t WildPath::carried() const {
  const std::lock_guard lock(mutex_);
  return carried_;
}

int64_t WildPath::carried_back_by_oldest() const {
  const std::lock_guard lock(mutex_);
  return connections_.empty() ? 0 : connections_.front()->carried_back;
}

int64_t WildPath::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

void WildPath::Accept() {
  for (;;) {
    const int from = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (from < 0) return;
    auto connection = std::make_unique<Connection>();
    connection->ends[0] = from;
    if (closed_) continue;
    const int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connection->ends[1] = to;
    const sockaddr_in address = Local(target_port_);
    if (connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
    fcntl(to, F_SETFL, O_NONBLOCK);
    connections_.push_back(std::move(connection));
  }
}

bool WildPath::Holds(const Connection& connection, bool to_target) const {
  if (holds_[to_target ? 1 : 0]) return true;
  return holds_oldest_ && to_target && connections_.front().get() == &connection;
}

// One direction. False: the connection is over.
bool WildPath::Carry(Connection& connection, bool to_target) {
  const size_t source = to_target ? 0 : 1;
  if (Holds(connection, to_target)) return true;
  std::vector<char>& waiting = connection.waiting[source];
  if (waiting.empty()) {
    waiting.resize(kBufferBytes);
    const ssize_t got = recv(connection.ends[source], waiting.data(), waiting.size(), 0);
    waiting.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
  }
  size_t size = waiting.size();
  if (bytes_per_s_ > 0) size = std::min(size, static_cast<size_t>(std::max(allowance_, 0.0)));
  if (size == 0) return true;
  const ssize_t sent = send(connection.ends[1 - source], waiting.data(), size, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN;
  waiting.erase(waiting.begin(), waiting.begin() + sent);
  carried_ += sent;
  connection.carried += sent;
  if (!to_target) connection.carried_back += sent;
  carried_most_ = std::max(carried_most_, connection.carried);
  allowance_ -= static_cast<double>(sent);
  if (break_every_ > 0 && carried_ >= next_break_) BreakOne();
  if (close_after_ > 0 && carried_ >= close_after_ && !closed_) {
    closed_ = true;
    when_closed_();
  }
  return !closed_;
}

void WildPath::BreakOne() {
  next_break_ += break_every_;
  connections_[static_cast<size_t>(rng_.Next() % connections_.size())]->dead = true;
  ++broken_;
}

void WildPath::Run() {
  Instant before = MonotonicNow();
  for (;;) {
    std::vector<pollfd> items = {{bell_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    bool waits = false;
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      for (const auto& connection : connections_) {
        for (size_t end = 0; end < 2; ++end) {
          const bool held = Holds(*connection, end == 0) || !connection->waiting[end].empty();
          waits |= !connection->waiting[end].empty();
          if (!held) items.push_back({connection->ends[end], POLLIN, 0});
        }
      }
    }
    poll(items.data(), items.size(), waits ? 1 : kTurnMs);
    const std::lock_guard lock(mutex_);
    const Instant now = MonotonicNow();
    // What a slow turn did not use is not saved up.
    allowance_ =
        std::min(allowance_ + bytes_per_s_ * (now - before).seconds(), bytes_per_s_ * 0.05);
    before = now;
    Accept();
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = *connections_[i];
      connection.dead =
          closed_ || connection.dead || !Carry(connection, true) || !Carry(connection, false);
    }
    std::erase_if(connections_, [](const auto& connection) { return connection->dead; });
  }
}

}  // namespace skerry
