#include "node/home_lock_program.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "common/status.h"

namespace skerry {
namespace {

// Who looks lets go at once.
constexpr int kTries = 10;
constexpr auto kTryAgain = std::chrono::milliseconds(20);

// Whoever wrote it last holds it.
std::string Holder(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size() - 1, 0);
  std::string pid(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  pid.resize(std::min(pid.find_first_not_of("0123456789"), pid.size()));
  return pid.empty() ? "another process" : "process " + pid;
}

absl::Status Lock(int descriptor, int how, const std::string& home) {
  if (::flock(descriptor, how | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK)
    return Unavailable("%s: %s [SK-disk-write]", home + "/lock", std::strerror(errno));
  return FailedPrecondition(
      "a node lives in %s already (%s); end it, or give this one a home of its own with --home "
      "[SK-home-in-use]",
      home, Holder(descriptor));
}

}  // namespace

absl::Status HomeLock::Look(const std::string& home) {
  const HomeLock file(::open((home + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  // Without a file nobody has ever lived there.
  return file.descriptor_ < 0 ? absl::OkStatus() : Lock(file.descriptor_, LOCK_SH, home);
}

int HomeLock::Process(const std::string& home) {
  int process = 0;
  std::ifstream(home + "/lock") >> process;
  return process;
}

absl::StatusOr<HomeLock> HomeLock::Take(const std::string& home) {
  const std::string file = home + "/lock";
  HomeLock lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.descriptor_ < 0)
    return Unavailable("%s: %s [SK-disk-write]", file, std::strerror(errno));
  absl::Status locked = Lock(lock.descriptor_, LOCK_EX, home);
  for (int i = 0; i < kTries && absl::IsFailedPrecondition(locked); ++i) {
    std::this_thread::sleep_for(kTryAgain);
    locked = Lock(lock.descriptor_, LOCK_EX, home);
  }
  SKERRY_RETURN_IF_ERROR(locked);
  const std::string pid = std::to_string(::getpid()) + "\n";
  const bool written =
      ::ftruncate(lock.descriptor_, 0) == 0 &&
      ::pwrite(lock.descriptor_, pid.data(), pid.size(), 0) == static_cast<ssize_t>(pid.size());
  static_cast<void>(written);  // for people only, and the disk may be full
  return lock;
}

HomeLock::~HomeLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace skerry
