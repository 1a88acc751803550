// Bulk bytes. A Payload is shared and never changes once made: a message that carries one is cheap
// to copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace skerry {

using Bytes = std::vector<uint8_t>;
using Payload = std::shared_ptr<const Bytes>;

inline Payload MakePayload(Bytes bytes) {
  return std::make_shared<const Bytes>(std::move(bytes));
}
inline std::span<const uint8_t> View(const Payload& payload) {
  return payload ? std::span<const uint8_t>(*payload) : std::span<const uint8_t>();
}
inline int64_t SizeOf(const Payload& payload) {
  return payload ? static_cast<int64_t>(payload->size()) : 0;
}

}  // namespace skerry
