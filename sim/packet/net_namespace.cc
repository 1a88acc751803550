#include "sim/packet/net_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "common/status.h"

namespace skerry {
namespace {

absl::Status WriteProc(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Unavailable("%s: %s", path, std::strerror(errno));
  const bool wrote = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  close(fd);
  return wrote ? absl::OkStatus() : Unavailable("%s: %s", path, std::strerror(error));
}

}  // namespace

absl::StatusOr<NetNamespace> NetNamespace::Create() {
  int fd = -1, error = 0;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) == 0) fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0) error = errno;
  }).join();
  if (fd < 0) return PermissionDenied("no network namespaces: %s", std::strerror(error));
  return NetNamespace(fd);
}

NetNamespace::NetNamespace(NetNamespace&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

NetNamespace& NetNamespace::operator=(NetNamespace&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

NetNamespace::~NetNamespace() {
  if (fd_ >= 0) close(fd_);
}

absl::Status NetNamespace::Run(const std::function<absl::Status()>& work) const {
  absl::Status status;
  std::thread([&] {
    if (setns(fd_, CLONE_NEWNET) == 0) {
      status = work();
    } else {
      status = PermissionDenied("cannot enter a network namespace: %s", std::strerror(errno));
    }
  }).join();
  return status;
}

absl::Status EnterUserNamespace() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER) != 0)
    return Unavailable("no user namespaces: %s", std::strerror(errno));
  SKERRY_RETURN_IF_ERROR(WriteProc("/proc/self/setgroups", "deny"));
  SKERRY_RETURN_IF_ERROR(WriteProc("/proc/self/uid_map", user + " " + user + " 1"));
  return WriteProc("/proc/self/gid_map", group + " " + group + " 1");
}

}  // namespace skerry
