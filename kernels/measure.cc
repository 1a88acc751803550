#include "kernels/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace skerry {
namespace {

using Seconds = std::chrono::duration<double>;

// In and out; powers of two would measure cache conflicts.
constexpr int64_t kWidthMin = 384, kWidthMax = 3072;
constexpr int64_t kTokensMin = 256, kTokensMax = 8192;
constexpr Seconds kCallMin{0.002};
constexpr Seconds kTotal{0.1};
constexpr int kCallsMin = 24;   // on a busy machine most calls are interrupted; one is not
constexpr int kQueuedMax = 64;  // products of a call

class Product {
 public:
  // False when there is no memory.
  bool Prepare(Backend& backend, int64_t width) {
    width_ = width;
    type_ = backend.compute_type();
    // Ones: zeros may be multiplied faster than numbers, and denormals slower.
    for (auto* buffer : {&x_, &y_, &w_}) {
      auto allocated = backend.Allocate(buffer == &w_ ? width * width : kTokensMax * width);
      if (!allocated.ok()) return false;
      *buffer = *std::move(allocated);
      backend.Fill((*buffer)->data(), 1, (*buffer)->size());
    }
    if (type_ == DType::kFloat32) return true;
    for (auto* buffer : {&x_, &w_}) {
      auto allocated = backend.Allocate((*buffer)->size() / 2);
      if (!allocated.ok()) return false;
      const int64_t rows = (*buffer)->size() / width;
      backend.Cast(Matrix{(*buffer)->data(), rows, width}, Rows((*allocated)->data(), rows));
      backend.Synchronize();
      *buffer = *std::move(allocated);
    }
    return true;
  }

  // Of one product, so many given at once: a GPU is done with one before the next is asked for.
  Seconds Time(Backend& backend, int64_t tokens, int queued) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < queued; ++i) {
      backend.Gemm(Transpose::kNo, Transpose::kNo, Rows(x_->data(), tokens),
                   Rows(w_->data(), width_), 0, Rows(y_->data(), tokens));
    }
    backend.Synchronize();
    return (std::chrono::steady_clock::now() - start) / queued;
  }
  double Gflop(int64_t tokens) const {
    return 2e-9 * static_cast<double>(tokens) * static_cast<double>(width_ * width_);
  }

 private:
  Tensor Rows(float* values, int64_t rows) const { return {values, rows, width_, width_, type_}; }

  int64_t width_ = 0;
  DType type_ = DType::kFloat32;
  std::unique_ptr<Buffer> x_, y_, w_;
};

}  // namespace

double MeasureGflops(Backend& backend) {
  Product product;
  double gflops = 0;
  // Wider where the longest product is over at once: a small one leaves most of a GPU idle.
  for (int64_t width = kWidthMin; width <= kWidthMax; width *= 2) {
    if (!product.Prepare(backend, width)) return gflops;
    int64_t tokens = width == kWidthMin ? kTokensMin : kTokensMax;
    Seconds best{0};
    int queued = 1;
    for (;;) {
      product.Time(backend, tokens, queued);  // a first call of a shape also prepares
      best = product.Time(backend, tokens, queued);
      if (best * queued >= kCallMin) break;
      if (tokens < kTokensMax) {
        tokens *= 2;
      } else if (width == kWidthMax && queued < kQueuedMax) {
        queued *= 2;
      } else {
        break;
      }
    }
    gflops = product.Gflop(tokens) / std::max(best.count(), 1e-9);
    if (width < kWidthMax && best < kCallMin) continue;
    int calls = 0;
    for (Seconds spent = best * queued; spent < kTotal || calls < kCallsMin; ++calls) {
      const Seconds call = product.Time(backend, tokens, queued);
      best = std::min(best, call);
      spent += call * queued;
    }
    return product.Gflop(tokens) / std::max(best.count(), 1e-9);
  }
  return gflops;
}

}  // namespace skerry
