// Tokens as they lie in files: 1, 2 or 4 bytes each, little-endian.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/bytes.h"

namespace skerry {

inline void AppendEncoded(std::span<const int32_t> tokens, int32_t token_bytes, Bytes& out) {
  const auto width = static_cast<size_t>(token_bytes);
  const size_t begin = out.size();
  out.resize(begin + tokens.size() * width);
  uint8_t* to = out.data() + begin;
  if (width == 1) {
    for (size_t i = 0; i < tokens.size(); ++i) to[i] = static_cast<uint8_t>(tokens[i]);
    return;
  }
  for (const int32_t token : tokens) {
    for (size_t byte = 0; byte < width; ++byte) *to++ = static_cast<uint8_t>(token >> (8 * byte));
  }
}

// `from` has out.size() tokens. What is no token becomes one that no vocabulary has.
inline void DecodeTokens(const uint8_t* from, int32_t token_bytes, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    if (token_bytes == 1) {
      out[i] = from[i];
    } else if (token_bytes == 2) {
      out[i] = from[2 * i] | from[2 * i + 1] << 8;
    } else {
      uint32_t token = 0;
      std::memcpy(&token, from + 4 * i, sizeof(token));
      out[i] = static_cast<int32_t>(std::min<uint32_t>(token, INT32_MAX));
    }
  }
}

}  // namespace skerry
