#include "sim/soak_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/status.h"

namespace skerry {

absl::Status EnterMountNamespace() {
  if (unshare(CLONE_NEWNS) != 0) {
    return PermissionDenied("no mount namespace: %s", std::strerror(errno));
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return PermissionDenied("mounts cannot be made private: %s", std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<SmallDisk> SmallDisk::Mount(const std::string& directory, int64_t bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Unavailable("%s: %s", directory, error.message());
  const std::string options = absl::StrFormat("size=%d,mode=0700", bytes);
  if (mount("skerry-soak", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return PermissionDenied("no tmpfs at %s: %s", directory, std::strerror(errno));
  return SmallDisk(directory);
}

SmallDisk::SmallDisk(SmallDisk&& other) noexcept
    : directory_(std::exchange(other.directory_, std::string())) {}

SmallDisk::~SmallDisk() {
  if (!directory_.empty()) umount2(directory_.c_str(), MNT_DETACH);
}

absl::Status SmallDisk::Fill() {
  const int file = open(Ballast().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return Unavailable("%s: %s", Ballast(), std::strerror(errno));
  static constexpr std::array<char, 1 << 16> kNothing{};
  // Large pieces while they fit, then byte by byte: a page that is begun takes a few more.
  for (size_t piece = kNothing.size(); piece > 0;) {
    if (write(file, kNothing.data(), piece) <= 0) piece = errno == ENOSPC ? piece / 2 : 0;
  }
  const int error = errno;
  close(file);
  return error == ENOSPC ? absl::OkStatus() : Unavailable("%s", std::strerror(error));
}

void SmallDisk::Free() {
  unlink(Ballast().c_str());
}

}  // namespace skerry
