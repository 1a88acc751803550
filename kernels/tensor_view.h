// A row-major float32 matrix somewhere in memory the caller owns. A value type; never outlives its
// memory.
#pragma once

#include <cstdint>

namespace skerry {

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

}  // namespace skerry
