#include "node/metrics_program.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "common/status.h"
#include "node/volunteer_screen.h"

namespace skerry {
namespace {

constexpr timeval kRequestPatience = {2, 0};

absl::StatusOr<std::pair<std::string, std::string>> HostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || port.empty() || port.find_first_not_of("0123456789") != std::string::npos) {
    return InvalidArgument("--metrics: want host:port, as in 127.0.0.1:9464; got '%s'", address);
  }
  return std::pair(host, port);
}

// −1: errno says why.
int Listen(const addrinfo& at) {
  const int listener = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (listener < 0) return -1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, at.ai_addr, at.ai_addrlen) == 0 && listen(listener, 8) == 0) return listener;
  const int why = errno;
  close(listener);
  errno = why;
  return -1;
}

int PortOf(int listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  char port[16] = "";
  getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, port, sizeof port,
              NI_NUMERICSERV);
  return std::atoi(port);
}

std::string Answer(const std::string& request, const std::string& home) {
  const auto reply = [](const char* status, const std::string& body) {
    return absl::StrFormat(
        "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n"
        "Connection: close\r\n\r\n%s",
        status, body.size(), body);
  };
  if (!request.starts_with("GET /metrics ")) return reply("404 Not Found", "GET /metrics\n");
  std::ifstream in(home + "/status.json");
  const auto status = nlohmann::json::parse(in, nullptr, false);
  if (!status.is_object()) return reply("503 Service Unavailable", "nothing is known yet\n");
  return reply("200 OK", NodeMetrics(status));
}

void Serve(int client, const std::string& home) {
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &kRequestPatience, sizeof kRequestPatience);
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &kRequestPatience, sizeof kRequestPatience);
  std::string request;
  char piece[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = recv(client, piece, sizeof piece, 0);
    if (count <= 0) return;
    request.append(piece, static_cast<size_t>(count));
    if (request.size() > MetricsServer::kRequestBytesMax) return;
  }
  const std::string answer = Answer(request, home);
  for (size_t sent = 0; sent < answer.size();) {
    const ssize_t count = send(client, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<size_t>(count);
  }
}

}  // namespace

struct MetricsServer::Sockets {
  Sockets(int listening, int ending, std::string directory)
      : listener(listening), end(ending), home(std::move(directory)) {
    thread = std::thread([this] {
      while (true) {
        pollfd wait[2] = {{listener, POLLIN, 0}, {end, POLLIN, 0}};
        if (poll(wait, 2, -1) < 0) continue;
        if (wait[1].revents != 0) return;
        const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) continue;
        Serve(client, home);
        close(client);
      }
    });
  }
  ~Sockets() {
    eventfd_write(end, 1);
    thread.join();
    close(listener);
    close(end);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  const int listener, end;
  const std::string home;
  std::thread thread;
};

MetricsServer::MetricsServer(std::unique_ptr<Sockets> sockets, int port)
    : sockets_(std::move(sockets)), port_(port) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Open(const std::string& address,
                                                                   const std::string& home) {
  SKERRY_ASSIGN_OR_RETURN(const auto where, HostAndPort(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(where.first.c_str(), where.second.c_str(), &hints, &found)) {
    return InvalidArgument("--metrics %s: %s", address, gai_strerror(error));
  }
  const int listener = Listen(*found);
  const int why = errno;
  freeaddrinfo(found);
  if (listener < 0) return Unavailable("--metrics %s: %s", address, std::strerror(why));
  const int end = eventfd(0, EFD_CLOEXEC);
  const int port = PortOf(listener);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(std::make_unique<Sockets>(listener, end, home), port));
}

}  // namespace skerry
