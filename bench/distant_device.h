// A device that is done with a product long before the program knows.
#pragma once

#include <algorithm>
#include <chrono>

#include "bench/forwarding_backend.h"

namespace skerry {

// Products take their time on it, one after the other, and to hear of their end takes as long as of
// a GPU. Nothing is multiplied.
class DistantDevice final : public ForwardingBackend {
 public:
  explicit DistantDevice(double gflops)
      : ForwardingBackend(CreateReferenceBackend()), gflops_(gflops) {}

  void Gemm(Transpose, Transpose, ConstTensor a, ConstTensor b, float, Tensor) override {
    const auto values = static_cast<double>(a.rows * a.columns);
    const double gflop = 2e-9 * values * static_cast<double>(b.columns);
    const std::chrono::duration<double> takes(gflop / gflops_);
    done_ = std::max(done_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
  }
  void Synchronize() override {
    while (Clock::now() < done_ + std::chrono::microseconds(25)) continue;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double gflops_;
  Clock::time_point done_ = Clock::now();
};

}  // namespace skerry
