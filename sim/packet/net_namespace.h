// Network namespaces without a name: they live as long as a descriptor or a process holds them, so
// nothing is left behind whatever way everybody ends.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

class NetNamespace {
 public:
  // PermissionDenied if this process may not (see packet_platform.h).
  static absl::StatusOr<NetNamespace> Create();

  NetNamespace(NetNamespace&& other) noexcept;
  NetNamespace& operator=(NetNamespace&& other) noexcept;
  ~NetNamespace();

  // Close-on-exec. A child process enters with setns before it becomes its program.
  int fd() const { return fd_; }

  // Calls `work` on a thread of its own inside the namespace and waits for it. What it opens there
  // (sockets, TUN devices) stays with the namespace, whoever uses it.
  absl::Status Run(const std::function<absl::Status()>& work) const;

 private:
  explicit NetNamespace(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Makes this process the owner of a new user namespace in which it may create network namespaces,
// without being root. Its user and group stay what they are. There is no way back; only a process
// with a single thread can. Unavailable if the system does not allow it.
absl::Status EnterUserNamespace();

}  // namespace skerry
