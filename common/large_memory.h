// Memory for bulk values, in pages of 2 MB where the system has them: with usual ones the first
// touch of each costs more than to read a fast disk into it.
#pragma once

#include <cstddef>
#include <vector>

namespace skerry {

// Of memory that is about to be touched for the first time. A hint.
void WantLargePages(void* begin, size_t bytes);

// Empty, with room for so many.
template <typename T>
std::vector<T> LargeReserve(size_t size) {
  std::vector<T> values;
  values.reserve(size);
  WantLargePages(values.data(), size * sizeof(T));
  return values;
}

// So many zeros.
template <typename T>
std::vector<T> LargeVector(size_t size) {
  std::vector<T> values = LargeReserve<T>(size);
  values.resize(size);
  return values;
}

}  // namespace skerry
