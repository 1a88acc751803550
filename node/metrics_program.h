// `skerry-node join --metrics HOST:PORT`: what the screen shows, for Prometheus, at /metrics.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace skerry {

// Answers on threads of its own from the status.json that the desk writes into the home; reads at
// most kRequestBytesMax of a request's body. Nothing can be changed through it.
class MetricsServer {
 public:
  static constexpr size_t kRequestBytesMax = 4096;

  // `address`: "127.0.0.1:9464", "[::1]:0" (any port). InvalidArgument, Unavailable.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Open(const std::string& address,
                                                             const std::string& home);
  ~MetricsServer();
  int port() const { return port_; }

 private:
  struct Web;
  explicit MetricsServer(std::unique_ptr<Web> web, int port);
  std::unique_ptr<Web> web_;
  int port_ = 0;
};

}  // namespace skerry
