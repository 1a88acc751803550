// Messages between the members of a group of processes that sum and copy float32 values in a ring
// (pipeline/exec/transport_ring.h; docs/PROTOCOL.md, "A group"; docs/decisions/0058-clusters.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/ids.h"

namespace skerry {

// member → member: a piece of what an operation brings to the receiver.
struct GroupValues {
  uint64_t group = 0;     // one formation of it; another is another group
  int64_t operation = 0;  // counted in that group
  int32_t step = 0;       // of the operation, as the receiver counts what comes
  int64_t piece = 0;      // of that step
  Payload values;         // float32
  bool operator==(const GroupValues& o) const;
};

// member → every other member, once a second and when there is news: I am of this group.
struct GroupSign {
  uint64_t group = 0;
  int64_t sent = 0;   // pieces, to the receiver of this
  int64_t taken = 0;  // pieces of the receiver's that are used
  bool ended = false;
  std::string why = {};  // it ended
  bool operator==(const GroupSign&) const = default;
};

enum class GroupOperation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,  // from the first member
  kLast = kBroadcast
};

// whoever measures a ring → every member: be one, and do the operation so many times in a row.
struct GroupTrial {
  uint64_t group = 0;
  std::vector<NodeId> members;  // by rank; ≤ kGroupMembersMax
  GroupOperation operation = GroupOperation::kAllReduce;
  int64_t values = 0;  // ≤ kGroupValuesMax
  int32_t times = 1;   // ≤ kGroupTimesMax
  bool operator==(const GroupTrial&) const = default;
};
// member → whoever measures: what came of it.
struct GroupTried {
  uint64_t group = 0;
  Digest digest;            // of what it holds then; zero: it failed
  std::string failed = {};  // why
  bool operator==(const GroupTried&) const = default;
};

// member of a cohort → coordinator, at every heartbeat until a plan changes the cohort: its group
// has ended.
struct CohortBroken {
  int32_t stage = 0;
  uint64_t group = 0;
  NodeId about;  // the member that it is about
  std::string why;
  bool operator==(const CohortBroken&) const = default;
};

inline constexpr size_t kGroupMembersMax = 256;
inline constexpr int64_t kGroupValuesMax = int64_t{1} << 32;
inline constexpr int32_t kGroupTimesMax = 1 << 16;

}  // namespace skerry
