#include "kernels/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace skerry {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int64_t kWidth = 384;  // in and out; a power of two would measure cache conflicts
constexpr int64_t kTokensMin = 256, kTokensMax = 8192;
constexpr Seconds kCallMin{0.002};
constexpr Seconds kTotal{0.1};
constexpr int kCallsMin = 24;  // on a busy machine most calls are interrupted; one is not

class Product {
 public:
  // False when there is no memory.
  bool Prepare(Backend& backend) {
    for (auto* buffer : {&x_, &y_}) {
      auto allocated = backend.Allocate(kTokensMax * kWidth);
      if (!allocated.ok()) return false;
      *buffer = *std::move(allocated);
    }
    auto allocated = backend.Allocate(kWidth * kWidth);
    if (!allocated.ok()) return false;
    w_ = *std::move(allocated);
    // Ones: zeros may be multiplied faster than numbers, and denormals slower.
    backend.Fill(x_->data(), 1, x_->size());
    backend.Fill(w_->data(), 1, w_->size());
    return true;
  }

  Seconds Time(Backend& backend, int64_t tokens) {
    const auto start = std::chrono::steady_clock::now();
    backend.Gemm(Transpose::kNo, Transpose::kNo, {x_->data(), tokens, kWidth},
                 {w_->data(), kWidth, kWidth}, 0, {y_->data(), tokens, kWidth});
    backend.Synchronize();
    return std::chrono::steady_clock::now() - start;
  }

 private:
  std::unique_ptr<Buffer> x_, y_, w_;
};

}  // namespace

double MeasureGflops(Backend& backend) {
  Product product;
  if (!product.Prepare(backend)) return 0;
  int64_t tokens = kTokensMin;
  Seconds best{0};
  for (;; tokens *= 2) {
    product.Time(backend, tokens);  // a first call of a shape also prepares
    best = product.Time(backend, tokens);
    if (best >= kCallMin || tokens == kTokensMax) break;
  }
  int calls = 0;
  for (Seconds spent = best; spent < kTotal || calls < kCallsMin; ++calls) {
    const Seconds call = product.Time(backend, tokens);
    best = std::min(best, call);
    spent += call;
  }
  return 2e-9 * static_cast<double>(tokens * kWidth * kWidth) / std::max(best.count(), 1e-9);
}

}  // namespace skerry
