// Two descriptors that a poll can wait for: a bell any thread or signal handler may ring, and an
// alarm clock in nanoseconds (poll itself counts milliseconds).
#pragma once

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

#include "common/check.h"
#include "common/instant.h"

namespace skerry {

inline Instant MonotonicNow() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant::FromNanos(int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
}

// Counts the time in which the machine was suspended, too: what a lease needs.
inline Instant BootTimeNow() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return Instant::FromNanos(int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
}

class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    SKERRY_CHECK(fd_ >= 0, "out of descriptors");
  }
  ~Bell() { close(fd_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  int fd() const { return fd_; }
  // From any thread; async-signal-safe.
  void Ring() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(fd_, &one, sizeof one);
  }
  void Silence() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(fd_, &count, sizeof count);
  }

 private:
  int fd_;
};

class Alarm {
 public:
  Alarm() : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    SKERRY_CHECK(fd_ >= 0, "out of descriptors");
  }
  ~Alarm() { close(fd_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  int fd() const { return fd_; }
  // Readable from `when` on; replaces what was set before.
  void Set(Instant when) const {
    const int64_t nanos = std::max<int64_t>(when.nanos(), 1);  // 0 would switch it off
    itimerspec spec{};
    spec.it_value.tv_sec = nanos / 1'000'000'000;
    spec.it_value.tv_nsec = nanos % 1'000'000'000;
    SKERRY_CHECK(timerfd_settime(fd_, TFD_TIMER_ABSTIME, &spec, nullptr) == 0);
  }
  void Off() const {
    const itimerspec spec{};
    SKERRY_CHECK(timerfd_settime(fd_, 0, &spec, nullptr) == 0);
  }

 private:
  int fd_;
};

}  // namespace skerry
