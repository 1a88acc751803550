// A value that several threads read and change, each in turn, for moments.
#pragma once

#include <mutex>
#include <utility>

namespace skerry {

template <typename T>
class Guarded {
 public:
  // use(value), and what that returns; nobody else has the value meanwhile. No reference to it may
  // get out.
  template <typename Use>
  auto With(Use&& use) {
    const std::lock_guard lock(mutex_);
    return std::forward<Use>(use)(value_);
  }
  template <typename Use>
  auto With(Use&& use) const {
    const std::lock_guard lock(mutex_);
    return std::forward<Use>(use)(value_);
  }

 private:
  mutable std::mutex mutex_;
  T value_;
};

}  // namespace skerry
