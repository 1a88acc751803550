// Buffers of one size on one backend, kept when given back: after the first steps nothing is
// allocated any more.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace skerry {

// Owned by one thread; the backend outlives it.
class BufferPool {
 public:
  BufferPool(Backend* backend, int64_t floats) : backend_(backend), floats_(floats) {}

  // Contents are whatever was there. ResourceExhausted if the backend has no memory left.
  absl::StatusOr<std::unique_ptr<Buffer>> Take();
  void Give(std::unique_ptr<Buffer> buffer);  // nullptr is fine

  int64_t floats() const { return floats_; }
  int64_t allocated() const { return allocated_; }  // buffers, taken and free
  int64_t HeldBytes() const { return allocated_ * floats_ * static_cast<int64_t>(sizeof(float)); }
  // Gives the free ones back to the backend.
  void Trim();

 private:
  Backend* backend_;
  int64_t floats_;
  int64_t allocated_ = 0;
  std::vector<std::unique_ptr<Buffer>> free_;
};

// Cuts one buffer into pieces that begin on 64-byte borders. With a null base it only counts.
class FloatCarver {
 public:
  explicit FloatCarver(float* base) : base_(base) {}
  float* Take(int64_t floats) {
    constexpr int64_t kBorder = 16;
    float* const piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (floats + kBorder - 1) / kBorder * kBorder;
    return piece;
  }
  Matrix TakeMatrix(int64_t rows, int64_t columns) { return {Take(rows * columns), rows, columns}; }
  Tensor TakeTensor(int64_t rows, int64_t columns, DType type) {
    const int64_t floats = (rows * columns * BytesOf(type) + 3) / 4;
    return {Take(floats), rows, columns, columns, type};
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

}  // namespace skerry
