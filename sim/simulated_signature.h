// What stands for signatures in simulations, whose nodes have no keys: anybody could make one, and
// nobody but the code under test does.
#pragma once

#include <algorithm>
#include <span>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/ids.h"

namespace skerry {

inline Signature SimulatedSignature(const NodeId& by, std::span<const uint8_t> statement) {
  Bytes bytes(by.bytes.begin(), by.bytes.end());
  bytes.insert(bytes.end(), statement.begin(), statement.end());
  const Digest digest = DigestOf(bytes);
  Signature signature{};
  std::copy(digest.bytes.begin(), digest.bytes.end(), signature.begin());
  return signature;
}

}  // namespace skerry
