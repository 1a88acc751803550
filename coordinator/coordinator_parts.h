// Structs of the coordinator's memory (coordinator_actor.h): what is learnt again after a restart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/bytes.h"
#include "common/id_hash.h"
#include "common/instant.h"
#include "coordinator/shard_holders.h"
#include "pipeline/plan/replan.h"
#include "wire/message/message.h"

namespace skerry {

struct CoordinatorParts {
  struct StagesOfPlan {
    int64_t version = 0;
    absl::flat_hash_map<NodeId, int32_t, IdHash> of;
  };

  struct Broken {  // a cohort whose ring has ended
    Instant since;
    int32_t stage = 0;
    std::map<NodeId, NodeId> blamed;  // by whom
    std::string why;                  // the first word
  };

  struct PartnersOfPlan {
    int64_t version = 0;
    std::map<NodeId, std::vector<NodeId>> of;
  };

  struct Dialled {
    std::vector<std::string> listens;
    Instant last;
    bool doubted = false;             // it answered before, not this time: asked once more
    std::optional<Hello> introduces;  // and is told of the others, and they of it, afterwards
    bool peers_changed = false;
  };

  struct Late {  // a stage's next round, by who stands idle for it
    int64_t round = 0;
    int64_t plan_version = 0;
    Instant since;
    std::map<NodeId, RoundLate> waiting;
  };

  // What the last look was at: equal again, it would see the same.
  struct Looked {
    int64_t plan_version = 0;
    int64_t links_changed = 0;
    std::vector<NodeId> standbys;
    std::set<NodeId> at_work;
    std::set<int32_t> resting;
    bool operator==(const Looked&) const = default;
  };

  struct Migration {  // decided, not made yet
    std::vector<Move> moves;
    int64_t plan_version = 0;
    Instant not_before;
  };

  struct Export {
    int32_t stage = 0;
    size_t tried = 0;  // replicas, before this one
    NodeId replica;    // asked now
    int64_t requested = 0;
    Bytes bytes;
    Instant progress;
    bool asking = false;
  };
};

}  // namespace skerry
