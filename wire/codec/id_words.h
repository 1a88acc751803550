// Ids as the four little-endian words of schema::Id256.
#pragma once

#include <bit>
#include <cstring>

#include "common/ids.h"
#include "wire/schema/skerry.capnp.h"

namespace skerry {

static_assert(std::endian::native == std::endian::little);

template <typename Tag>
void WriteId(const Id256<Tag>& id, schema::Id256::Builder b) {
  uint64_t words[4];
  std::memcpy(words, id.bytes.data(), sizeof words);
  b.setW0(words[0]);
  b.setW1(words[1]);
  b.setW2(words[2]);
  b.setW3(words[3]);
}

template <typename Id>
Id ReadId(schema::Id256::Reader r) {
  const uint64_t words[4] = {r.getW0(), r.getW1(), r.getW2(), r.getW3()};
  Id id;
  std::memcpy(id.bytes.data(), words, sizeof words);
  return id;
}

}  // namespace skerry
