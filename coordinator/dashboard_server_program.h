// The dashboard's web server: pages, figures and server-sent events of one run's directory, and,
// for who has the operator's token, commands (docs/decisions/0037-dashboard.md, 0044-operating.md).
#pragma once

#include <memory>
#include <string>

#include "coordinator/dashboard_picture_program.h"

namespace skerry {

struct DashboardServerOptions {
  std::string directory;      // that commands are about
  std::string token;          // 32 hexadecimal digits
  bool viewers_need = false;  // the token, to look as well
};

class DashboardServer {
 public:
  // `picture` must outlive it.
  DashboardServer(DashboardPicture* picture, DashboardServerOptions options);
  ~DashboardServer();

  // False: it is taken. Port 0 becomes one that is free.
  bool Bind(const std::string& host, int* port);
  // Serves until the process ends; false if it cannot.
  bool Listen();

 private:
  class Routes;
  std::unique_ptr<Routes> routes_;
};

}  // namespace skerry
