// What two nodes say through a relay, sealed so that the relay can neither read nor change it nor
// say anything in their names.
//
// One key for each direction: BLAKE2b-256 over a label and both ids, keyed by the X25519 secret
// that the two long-lived keys share (libsodium, crypto_box_beforenm). A part is sealed with
// XChaCha20-Poly1305 under a random nonce, its stripe as associated data. What a relay says twice
// the layers above recognise: the courier's sequences, and serials of chunks. Who learns a node's
// secret key later can read what was recorded: only direct connections (CURVE) are better than
// that.
//
// A value type; its copies hold the keys, and wipe them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "wire/identity.h"

namespace skerry {

class RelaySeal {
 public:
  // InvalidArgument if the peer's id is no key.
  static absl::StatusOr<RelaySeal> Between(const Identity& self, const NodeId& peer);

  RelaySeal(const RelaySeal&) = default;
  RelaySeal& operator=(const RelaySeal&) = default;
  ~RelaySeal();

  // Appends the sealed form of `plain` to `out`: kOverhead bytes more.
  void Seal(uint16_t stripe, std::span<const uint8_t> plain, Bytes& out) const;
  // nullopt: not sealed by the peer for us, for this stripe.
  std::optional<Bytes> Open(uint16_t stripe, std::span<const uint8_t> sealed) const;

  static constexpr size_t kOverhead = 24 + 16;

 private:
  RelaySeal() = default;
  std::array<uint8_t, 32> to_peer_{}, from_peer_{};
};

}  // namespace skerry
