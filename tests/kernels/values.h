// What the tests of kernels share: random matrices, and how far two results are apart.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/rng.h"
#include "kernels/tensor_view.h"

namespace skerry {

using Values = std::vector<float>;

// `count` draws of Normal(0, 1), another stream for every name.
template <typename T = float>
std::vector<T> Normals(int64_t count, const std::string& name) {
  Rng rng(7, name);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(rng.Normal());
  return values;
}

inline std::vector<int32_t> Tokens(int64_t count, int64_t vocabulary, const std::string& name) {
  Rng rng(7, name);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(vocabulary)));
  return tokens;
}

// All of `values` as a matrix with so many rows.
template <typename T>
BasicMatrix<T> AsRows(std::vector<T>& values, int64_t rows) {
  return {values.data(), rows, static_cast<int64_t>(values.size()) / rows};
}
template <typename T>
BasicMatrix<const T> AsRows(const std::vector<T>& values, int64_t rows) {
  return {values.data(), rows, static_cast<int64_t>(values.size()) / rows};
}

inline bool SameBits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// ‖got − want‖ / ‖want‖ in the Euclidean norm; a NaN anywhere gives NaN, which passes no bound.
template <typename T>
double NormwiseError(const std::vector<T>& got, const std::vector<T>& want) {
  if (got.size() != want.size()) return NAN;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = want[i], apart = got[i] - wanted;
    difference += apart * apart;
    norm += wanted * wanted;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace skerry
