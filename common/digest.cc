#include "common/digest.h"

#include <sodium.h>

#include <bit>

#include "common/check.h"

namespace skerry {

static_assert(std::endian::native == std::endian::little,
              "Skerry's formats are little-endian in memory");

Digest DigestOf(std::span<const uint8_t> bytes) {
  Digest digest;
  SKERRY_CHECK(crypto_generichash(digest.bytes.data(), digest.bytes.size(), bytes.data(),
                                  bytes.size(), nullptr, 0) == 0);
  return digest;
}

Digest DigestOf(std::span<const float> values) {
  return DigestOf(std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
}

}  // namespace skerry
