#include "wire/transport/relay_seal.h"

#include <sodium.h>

#include <cstring>
#include <string>

#include "common/check.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr char kLabel[] = "skerry relayed part, 1";

static_assert(RelaySeal::kOverhead == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES +
                                          crypto_aead_xchacha20poly1305_ietf_ABYTES);

std::array<uint8_t, 32> KeyOf(const std::array<uint8_t, crypto_box_BEFORENMBYTES>& shared,
                              const NodeId& from, const NodeId& to) {
  std::array<uint8_t, 32> key{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, shared.data(), shared.size(), key.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kLabel), sizeof kLabel);
  crypto_generichash_update(&state, from.bytes.data(), from.bytes.size());
  crypto_generichash_update(&state, to.bytes.data(), to.bytes.size());
  crypto_generichash_final(&state, key.data(), key.size());
  sodium_memzero(&state, sizeof state);
  return key;
}

}  // namespace

absl::StatusOr<RelaySeal> RelaySeal::Between(const Identity& self, const NodeId& peer) {
  SKERRY_ASSIGN_OR_RETURN(const CurveKey key, CurveKeyOf(peer));
  std::array<uint8_t, crypto_box_BEFORENMBYTES> shared{};
  if (crypto_box_beforenm(shared.data(), key.data(), self.curve_secret().data()) != 0)
    return InvalidArgument("%s is no key", peer.Short());
  RelaySeal seal;
  seal.to_peer_ = KeyOf(shared, self.id(), peer);
  seal.from_peer_ = KeyOf(shared, peer, self.id());
  sodium_memzero(shared.data(), shared.size());
  return seal;
}

RelaySeal::~RelaySeal() {
  sodium_memzero(to_peer_.data(), to_peer_.size());
  sodium_memzero(from_peer_.data(), from_peer_.size());
}

void RelaySeal::Seal(uint16_t stripe, std::span<const uint8_t> plain, Bytes& out) const {
  constexpr size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
  const size_t at = out.size();
  out.resize(at + kOverhead + plain.size());
  uint8_t* nonce = out.data() + at;
  randombytes_buf(nonce, kNonce);
  SKERRY_CHECK(crypto_aead_xchacha20poly1305_ietf_encrypt(
                   nonce + kNonce, nullptr, plain.data(), plain.size(),
                   reinterpret_cast<const uint8_t*>(&stripe), sizeof stripe, nullptr, nonce,
                   to_peer_.data()) == 0,
               "sealing cannot fail");
}

std::optional<Bytes> RelaySeal::Open(uint16_t stripe, std::span<const uint8_t> sealed) const {
  constexpr size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
  if (sealed.size() < kOverhead) return std::nullopt;
  Bytes plain(sealed.size() - kOverhead);
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(
          plain.data(), nullptr, nullptr, sealed.data() + kNonce, sealed.size() - kNonce,
          reinterpret_cast<const uint8_t*>(&stripe), sizeof stripe, sealed.data(),
          from_peer_.data()) != 0)
    return std::nullopt;
  return plain;
}

}  // namespace skerry
