// Small disks of a soak: file systems in memory, seen by this process and its children only, that
// can be filled to the last byte and freed again.
//
// They live in a mount namespace of this process and go with it, however it ends.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skerry {

// Moves this process into a mount namespace of its own, for good. PermissionDenied where the system
// does not allow it.
absl::Status EnterMountNamespace();

// A file system of `bytes` at a directory. Unmounted when it is destroyed.
class SmallDisk {
 public:
  static absl::StatusOr<SmallDisk> Mount(const std::string& directory, int64_t bytes);
  SmallDisk(SmallDisk&& other) noexcept;
  SmallDisk& operator=(SmallDisk&&) = delete;
  ~SmallDisk();

  // Leaves no free byte.
  absl::Status Fill();
  void Free();

 private:
  explicit SmallDisk(std::string directory) : directory_(std::move(directory)) {}
  std::string Ballast() const { return directory_ + "/ballast"; }
  std::string directory_;
};

}  // namespace skerry
