// Identities: fixed-size value types with a total order, so that they may key ordered containers in
// actors.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>

namespace skerry {

// 32 opaque bytes; `Tag` keeps the kinds apart. The zero value means "none".
template <typename Tag>
struct Id256 {
  std::array<uint8_t, 32> bytes{};
  // Byte by byte, in words: most pairs differ in the first.
  std::strong_ordering operator<=>(const Id256& o) const {
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      const uint64_t mine = BigEndianWord(at), other = o.BigEndianWord(at);
      if (mine != other) return mine <=> other;
    }
    return std::strong_ordering::equal;
  }
  bool operator==(const Id256& o) const { return (*this <=> o) == 0; }
  bool IsZero() const { return *this == Id256{}; }
  std::string Hex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const uint8_t b : bytes) {
      out += kDigits[b >> 4];
      out += kDigits[b & 15];
    }
    return out;
  }
  std::string Short() const { return Hex().substr(0, 8); }

 private:
  uint64_t BigEndianWord(size_t at) const {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    static_assert(std::endian::native == std::endian::little);
    return __builtin_bswap64(word);
  }
};

using NodeId = Id256<struct NodeTag>;  // a node's (or the coordinator's) Ed25519 public key
using RunId =
    Id256<struct RunTag>;  // digest of a run's effective configuration and its creation nonce
using Digest = Id256<struct DigestTag>;  // BLAKE2b-256

using Signature = std::array<uint8_t, 64>;  // Ed25519, detached; zero: none

// A NodeId for simulations and tests: `index` big-endian in the first bytes, so order follows the
// index.
inline NodeId TestNodeId(uint32_t index) {
  NodeId id;
  for (int i = 0; i < 4; ++i)
    id.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(index >> (24 - 8 * i));
  id.bytes[31] = 1;
  return id;
}

}  // namespace skerry
