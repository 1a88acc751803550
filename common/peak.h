// The most of something so far, written by one thread and read by another.
#pragma once

#include <atomic>
#include <cstdint>

namespace skerry {

class Peak {
 public:
  // One writer.
  void Raise(int64_t value) {
    if (value > most_.load(std::memory_order_relaxed)) {
      most_.store(value, std::memory_order_relaxed);
    }
  }
  int64_t most() const { return most_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> most_ = 0;
};

}  // namespace skerry
