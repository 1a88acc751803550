// Stand-ins for devices and the lines between them that take no processor: they sleep. What is
// measured with them is how work is arranged, and no machine. Real values go through both.
#pragma once

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "bench/forwarding_backend.h"
#include "bench/forwarding_group.h"
#include "common/status.h"

namespace skerry::bench {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// After each product it sleeps until that has taken so long.
class SlowDevice final : public ForwardingBackend {
 public:
  SlowDevice(std::unique_ptr<Backend> inner, Seconds product)
      : ForwardingBackend(std::move(inner)), product_(product) {}
  void Gemm(Transpose ta, Transpose tb, ConstTensor a, ConstTensor b, float beta,
            Tensor c) override {
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(product_);
    ForwardingBackend::Gemm(ta, tb, a, b, beta, c);
    std::this_thread::sleep_until(until);
  }

 private:
  Seconds product_;
};

// A sum of all values, or of a range its share, takes so long.
class SlowGroup final : public ForwardingGroup {
 public:
  SlowGroup(std::unique_ptr<Group> inner, Seconds sum)
      : ForwardingGroup(std::move(inner)), sum_(sum) {}
  absl::Status AllReduce(float* values, int64_t n) override {
    return Slowly(1, [&] { return ForwardingGroup::AllReduce(values, n); });
  }
  absl::Status ReduceScatterOf(float* values, int64_t n, const GroupPart& range) override {
    return Slowly(static_cast<double>(range.size) / static_cast<double>(n),
                  [&] { return ForwardingGroup::ReduceScatterOf(values, n, range); });
  }

 private:
  template <typename Sum>
  absl::Status Slowly(double share, const Sum& sum) const {
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(sum_ * share);
    SKERRY_RETURN_IF_ERROR(sum());
    std::this_thread::sleep_until(until);
    return absl::OkStatus();
  }

  Seconds sum_;
};

}  // namespace skerry::bench
