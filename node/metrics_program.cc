#include "node/metrics_program.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "common/status.h"
#include "node/volunteer_screen.h"

namespace skerry {
namespace {

constexpr time_t kPatienceS = 2;
constexpr size_t kThreads = 2;
constexpr size_t kRequestsOfOne = 100;  // on one connection
constexpr int kPortMax = 65535;

absl::StatusOr<std::pair<std::string, int>> HostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !is_number || std::atoi(port.c_str()) > kPortMax) {
    return InvalidArgument(
        "--metrics: want host:port, as in 127.0.0.1:9464; got '%s' [SK-metrics-address]", address);
  }
  return std::pair(host, std::atoi(port.c_str()));
}

// By itself the library lets programs of one user share a port (SO_REUSEPORT), and answer in turn.
void TakeAlone(int socket) {
  const int yes = 1;  // also at once after another that ended
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

struct MetricsServer::Web {
  explicit Web(std::string directory) : home(std::move(directory)) {
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server.set_socket_options(TakeAlone);
    server.set_payload_max_length(kRequestBytesMax);
    server.set_keep_alive_max_count(kRequestsOfOne);
    server.set_read_timeout(kPatienceS);
    server.set_write_timeout(kPatienceS);
    server.set_keep_alive_timeout(kPatienceS);
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      std::ifstream in(home + "/status.json");
      const auto status = nlohmann::json::parse(in, nullptr, false);
      if (status.is_object()) {
        return response.set_content(NodeMetrics(status), "text/plain; version=0.0.4");
      }
      response.status = 503;
      response.set_content("nothing is known yet\n", "text/plain");
    });
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.status == 404) response.set_content("GET /metrics\n", "text/plain");
    });
  }
  ~Web() {
    // It can be told to end only once it has begun.
    while (!server.is_running() && !ended) std::this_thread::yield();
    server.stop();
    if (thread.joinable()) thread.join();
  }
  Web(const Web&) = delete;
  Web& operator=(const Web&) = delete;

  void Begin() {
    ended = false;
    thread = std::thread([this] {
      server.listen_after_bind();
      ended = true;
    });
  }

  const std::string home;
  httplib::Server server;
  std::atomic<bool> ended = true;
  std::thread thread;
};

MetricsServer::MetricsServer(std::unique_ptr<Web> web, int port)
    : web_(std::move(web)), port_(port) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Open(const std::string& address,
                                                                   const std::string& home) {
  SKERRY_ASSIGN_OR_RETURN(auto where, HostAndPort(address));
  auto& [host, port] = where;
  auto web = std::make_unique<Web>(home);
  const bool any = port == 0;
  if (any) port = web->server.bind_to_any_port(host);
  if (any ? port <= 0 : !web->server.bind_to_port(host, port)) {
    return Unavailable(
        "--metrics %s: it is taken, or not an address of this machine; choose another "
        "[SK-metrics-address]",
        address);
  }
  web->Begin();
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(web), port));
}

}  // namespace skerry
