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

struct DigestStream::State {
  crypto_generichash_state hash;  // wants its own alignment
};

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
  SKERRY_CHECK(crypto_generichash_init(&state_->hash, nullptr, 0, sizeof(Digest{}.bytes)) == 0);
}
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;
DigestStream::~DigestStream() = default;

void DigestStream::Add(std::span<const uint8_t> bytes) {
  SKERRY_CHECK(crypto_generichash_update(&state_->hash, bytes.data(), bytes.size()) == 0);
}

Digest DigestStream::Finish() {
  Digest digest;
  SKERRY_CHECK(crypto_generichash_final(&state_->hash, digest.bytes.data(), digest.bytes.size()) ==
               0);
  return digest;
}

}  // namespace skerry
