// The dashboard: a web server over what a coordinator writes into its directory. It is a process of
// its own that holds no key and decides nothing, so that nobody who talks to it can hold up or
// reach the run (docs/decisions/0037-dashboard.md).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace skerry {

struct DashboardOptions {
  std::string directory;  // of a run, or of a demo
  // host:port. Beyond loopback it wants a token, which it makes and keeps in DIR/dashboard.token.
  std::string address = "127.0.0.1:7780";
  bool any_port = false;  // if it is taken, one of the next
  int patience_s = 0;     // if it is taken, again so long: who served before may be about to end
};

// Serves until it is told to end. Prints the address, and writes it to DIR/dashboard.
absl::StatusOr<int> ServeDashboard(const DashboardOptions& options);

// The same in a child of this process, which ends with it. What it fails at is printed and does no
// harm. Made before any thread is started; serves from Begin() on, so that who is refused for
// another reason has neither shown an address nor taken it.
class DashboardChild {
 public:
  explicit DashboardChild(const DashboardOptions& options);
  ~DashboardChild();
  DashboardChild(const DashboardChild&) = delete;
  DashboardChild& operator=(const DashboardChild&) = delete;
  void Begin();

 private:
  int awaited_ = -1;  // to the child; closed without a word it ends
};

void AddDashboardCommand(CLI::App& app, int* exit_code);

}  // namespace skerry
