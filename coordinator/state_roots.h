// What the replicas of a stage have said of the state that they keep for a joiner (ops_state.cc).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/ids.h"

namespace skerry {

struct StateRoots {
  int64_t since = 0;              // version of the plan that named the joiner
  std::map<NodeId, Digest> said;  // zero: it does not have that version
  std::optional<Digest> agreed;
};

}  // namespace skerry
