// What the tests of all codecs share.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <span>
#include <vector>

#include "compression/codec.h"
#include "tests/compression/sample_values.h"

namespace skerry {

inline std::vector<DeltaCodec> EveryCodec() {
  std::vector<DeltaCodec> all;
  for (int i = 0; i <= static_cast<int>(kLastShapeless); ++i) {
    all.push_back(static_cast<DeltaCodec>(i));
  }
  return all;
}

inline Bytes MustEncode(const Codec& codec, std::span<const float> u) {
  Bytes out;
  REQUIRE(codec.Encode(u, &out).ok());
  return out;
}

inline std::vector<float> MustDecode(const Codec& codec, const Bytes& bytes, size_t n) {
  std::vector<float> values(n, 77.0f);
  REQUIRE(codec.Decode(bytes, values).ok());
  return values;
}

template <typename T>
bool SameBits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return SameBits(std::span<const T>(a), std::span<const T>(b));
}

}  // namespace skerry
