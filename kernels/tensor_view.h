// Row-major matrices somewhere in memory the caller owns. Value types; they never outlive their
// memory.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace skerry {

// A dense float32 matrix.
template <typename T>
struct BasicMatrix {
  T* values = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t size() const { return rows * columns; }
  operator BasicMatrix<const T>() const {
    return {values, rows, columns};
  }  // NOLINT: implicit like T* → const T*
};
using Matrix = BasicMatrix<float>;
using ConstMatrix = BasicMatrix<const float>;

constexpr int64_t BytesOf(DType type) {
  return type == DType::kFloat32 ? 4 : 2;
}

inline const void* StepBytes(const void* values, int64_t bytes) {
  return static_cast<const char*>(values) + bytes;
}

// A matrix of either type; row r begins at element r · step. Some columns of a wider matrix are one
// with its step; every float32 matrix is one.
struct ConstTensor {
  const void* values = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t step = 0;  // ≥ columns
  DType type = DType::kFloat32;

  ConstTensor() = default;
  ConstTensor(const void* at, int64_t r, int64_t c, int64_t s, DType t)
      : values(at), rows(r), columns(c), step(s), type(t) {}
  // NOLINTNEXTLINE: implicit, a float32 matrix is a tensor
  ConstTensor(const ConstMatrix& m)
      : ConstTensor(m.values, m.rows, m.columns, m.columns, DType::kFloat32) {}
  ConstTensor(const Matrix& m) : ConstTensor(ConstMatrix(m)) {}  // NOLINT: as above
  ConstTensor(const float* at, int64_t r, int64_t c) : ConstTensor(ConstMatrix{at, r, c}) {}

  bool empty() const { return values == nullptr; }
  bool is_dense() const { return step == columns || rows <= 1; }
  int64_t size() const { return rows * columns; }
  const float* floats() const { return static_cast<const float*>(values); }
  ConstTensor Rows(int64_t first, int64_t count) const {
    return {StepBytes(values, first * step * BytesOf(type)), count, columns, step, type};
  }
  ConstTensor Columns(int64_t first, int64_t count) const {
    return {StepBytes(values, first * BytesOf(type)), rows, count, step, type};
  }
};

struct Tensor {
  void* values = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t step = 0;
  DType type = DType::kFloat32;

  Tensor() = default;
  Tensor(void* at, int64_t r, int64_t c, int64_t s, DType t)
      : values(at), rows(r), columns(c), step(s), type(t) {}
  // NOLINTNEXTLINE: implicit, a float32 matrix is a tensor
  Tensor(const Matrix& m) : Tensor(m.values, m.rows, m.columns, m.columns, DType::kFloat32) {}
  Tensor(float* at, int64_t r, int64_t c) : Tensor(Matrix{at, r, c}) {}
  operator ConstTensor() const {  // NOLINT: implicit like T* → const T*
    return {values, rows, columns, step, type};
  }

  bool empty() const { return values == nullptr; }
  int64_t size() const { return rows * columns; }
  float* floats() const { return static_cast<float*>(values); }
  Tensor Rows(int64_t first, int64_t count) const {
    return {static_cast<char*>(values) + first * step * BytesOf(type), count, columns, step, type};
  }
  Tensor Columns(int64_t first, int64_t count) const {
    return {static_cast<char*>(values) + first * BytesOf(type), rows, count, step, type};
  }
};

}  // namespace skerry
