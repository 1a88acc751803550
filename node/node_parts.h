// Structs of a node's memory (node_actor.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "pipeline/plan/round_shape.h"

namespace skerry {

struct NodeParts {
  // The one heavy job of the actor under way (stage tasks are the StageActor's).
  enum class Heavy : uint8_t {
    kNone,
    kBuild,
    kOptimizer,
    kEncode,
    kReduce,
    kApply,
    kExport,
    kSave,
    kRestore,
    kCatchUp,
    kStart,
    kCheckpoint
  };

  struct Boundary {
    Instant at;
    std::optional<Instant> ready;    // everything needed for the update was here
    std::optional<Instant> waiting;  // the device had nothing else to do since
    Instant counted_from;            // `at` on the clock of lateness
  };

  struct RoundBytes {  // of deltas and sums
    int64_t sent = 0, received = 0;
  };

  struct RunPause {  // the operator's: no step from `at` on is begun (docs/PROTOCOL.md, 46)
    int64_t at = 0;
    std::string who;  // "run's operator, who paused it: why"
  };

  struct Shapes {  // of a plan's rounds, and who sums what in them
    int64_t plan_version = 0;
    int32_t stage = -1;
    std::map<int64_t, RoundShape> of;
    std::map<std::pair<uint64_t, int32_t>, std::vector<NodeId>> reducers;  // by shape and pieces
  };
};

}  // namespace skerry
