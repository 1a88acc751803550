// The digest of a long input, at the speed of many (common/digests.h) where a digest of all of it
// in one chain keeps a core at what one lane can:
//
//   root = BLAKE2b-256(digests of its pieces, in order, each BLAKE2b-256; then its length, u64)
//
// Pieces are kTreePieceBytes long, the last one shorter; nothing has no piece. The length parts an
// input from one that is made of digests.
#pragma once

#include <cstdint>
#include <span>

#include "common/bytes.h"
#include "common/digest.h"

namespace skerry {

inline constexpr size_t kTreePieceBytes = 64 << 10;

Digest TreeDigestOf(std::span<const uint8_t> bytes);

// The same of bytes that come in parts. Memory: half a megabyte, whatever the input.
class TreeDigestStream {
 public:
  void Add(std::span<const uint8_t> bytes);
  // Of all that was added. Nothing may be added afterwards.
  Digest Finish();

 private:
  void AddPieces(std::span<const uint8_t> bytes);

  DigestStream root_;
  Bytes pending_;  // less than a group of pieces
  uint64_t length_ = 0;
};

}  // namespace skerry
