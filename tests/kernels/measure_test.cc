// The rate of a device that is done with a product long before the program knows.
#include "kernels/measure.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "bench/forwarding_backend.h"

namespace skerry {
namespace {

using Clock = std::chrono::steady_clock;

// Products take their time on it, one after the other, and to hear of their end takes as long as of
// a GPU.
class DistantDevice final : public ForwardingBackend {
 public:
  explicit DistantDevice(double gflops)
      : ForwardingBackend(CreateReferenceBackend()), gflops_(gflops) {}

  void Gemm(Transpose, Transpose, ConstTensor a, ConstTensor b, float, Tensor) override {
    const double gflop =
        2e-9 * static_cast<double>(a.rows * a.columns) * static_cast<double>(b.columns);
    const auto takes = std::chrono::duration<double>(gflop / gflops_);
    done_ = std::max(done_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
  }
  void Synchronize() override {
    while (Clock::now() < done_ + std::chrono::microseconds(25)) continue;
  }

 private:
  double gflops_;
  Clock::time_point done_ = Clock::now();
};

}  // namespace

TEST_CASE("Measure: a fast device's rate is its products', not of waiting for them", "[kernels]") {
  const double rate = GENERATE(2e4, 8e5);
  DistantDevice device(rate);
  const double measured = MeasureGflops(device);
  CHECK(measured > 0.9 * rate);
  CHECK(measured <= 1.001 * rate);
}

}  // namespace skerry
