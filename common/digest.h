// BLAKE2b-256 (RFC 7693), by libsodium: end-to-end digests of payloads and of base parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/ids.h"

namespace skerry {

Digest DigestOf(std::span<const uint8_t> bytes);

// The digest of float bits as they lie in memory (little-endian hosts only; checked at compile
// time).
Digest DigestOf(std::span<const float> values);

// The same digest of bytes that come in parts.
class DigestStream {
 public:
  DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();

  void Add(std::span<const uint8_t> bytes);
  // Of all that was added. Nothing may be added afterwards.
  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skerry
