// A backend that says how far its device has got.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "bench/forwarding_backend.h"

namespace skerry {

// Products and synchronisations are counted; any thread may ask.
class CountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // Forgets what was counted.
  void Restart() {
    const std::lock_guard lock(mutex_);
    products_ = 0;
    at_synchronisation_.clear();
  }
  // Waits until `more` products were made after synchronisation `i` since Restart. False: they were
  // not for so long that they never will.
  bool WaitForProducts(size_t i, int more) {
    constexpr auto kLong = std::chrono::seconds(20);
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] {
      return i < at_synchronisation_.size() && products_ >= at_synchronisation_[i] + more;
    });
  }

  void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
            Tensor c) override {
    ForwardingBackend::Gemm(ta, tb, a, b, beta, c);
    const std::lock_guard lock(mutex_);
    ++products_;
    changed_.notify_all();
  }
  void Synchronize() override {
    ForwardingBackend::Synchronize();
    const std::lock_guard lock(mutex_);
    at_synchronisation_.push_back(products_);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t products_ = 0;
  std::vector<int64_t> at_synchronisation_;
};

}  // namespace skerry
