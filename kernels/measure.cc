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
    type_ = backend.compute_type();
    // Ones: zeros may be multiplied faster than numbers, and denormals slower.
    for (auto* buffer : {&x_, &y_, &w_}) {
      auto allocated = backend.Allocate(buffer == &w_ ? kWidth * kWidth : kTokensMax * kWidth);
      if (!allocated.ok()) return false;
      *buffer = *std::move(allocated);
      backend.Fill((*buffer)->data(), 1, (*buffer)->size());
    }
    if (type_ == DType::kFloat32) return true;
    for (auto* buffer : {&x_, &w_}) {
      auto allocated = backend.Allocate((*buffer)->size() / 2);
      if (!allocated.ok()) return false;
      const int64_t rows = (*buffer)->size() / kWidth;
      backend.Cast(Matrix{(*buffer)->data(), rows, kWidth}, Rows((*allocated)->data(), rows));
      backend.Synchronize();
      *buffer = *std::move(allocated);
    }
    return true;
  }

  Seconds Time(Backend& backend, int64_t tokens) {
    const auto start = std::chrono::steady_clock::now();
    backend.Gemm(Transpose::kNo, Transpose::kNo, Rows(x_->data(), tokens), Rows(w_->data(), kWidth),
                 0, Rows(y_->data(), tokens));
    backend.Synchronize();
    return std::chrono::steady_clock::now() - start;
  }

 private:
  Tensor Rows(float* values, int64_t rows) const { return {values, rows, kWidth, kWidth, type_}; }

  DType type_ = DType::kFloat32;
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
