// One process at a time lives in a node's home: two of one identity would each be taken for the
// other's successor, and stop a run that waits for both.
//
// The kernel holds the lock (flock), so it ends with the process however that ends. Not for homes
// on network file systems that know no locks.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace skerry {

class HomeLock {
 public:
  // FailedPrecondition: another process lives there; it is named. Unavailable: no file can be made.
  // Waits a moment for who only looks.
  static absl::StatusOr<HomeLock> Take(const std::string& home);
  // As Take, but only looks: nothing is taken, made or written. OK: nobody lives there.
  static absl::Status Look(const std::string& home);
  // Of who took it last, if it could write that; 0: not known.
  static int Process(const std::string& home);

  HomeLock(HomeLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HomeLock& operator=(HomeLock&&) = delete;
  ~HomeLock();

 private:
  explicit HomeLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace skerry
