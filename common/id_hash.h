// For tables of ids that are only looked up. Ids are keys, which strangers choose: the hash is
// Abseil's, seeded for each process.
#pragma once

#include <cstddef>

#include "absl/hash/hash.h"
#include "common/ids.h"

namespace skerry {

struct IdHash {
  template <typename Tag>
  size_t operator()(const Id256<Tag>& id) const {
    return absl::HashOf(id.bytes);
  }
};

}  // namespace skerry
