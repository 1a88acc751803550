// Structs of a node's memory (node_actor.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "pipeline/exec/stage_work.h"
#include "pipeline/plan/round_shape.h"
#include "wire/message/pipeline_plan.h"

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

  struct Submitted {  // a job
    Instant at;
    std::shared_ptr<bool> out_of_memory;  // set by the job, read once it is done
    JobQueue queue = JobQueue::kDevice;
  };

  struct RoundBytes {  // of deltas and sums
    int64_t sent = 0, received = 0;
  };

  struct RunPause {  // the operator's: no step from `at` on is begun (docs/PROTOCOL.md, 46)
    int64_t at = 0;
    std::string who;  // "run's operator, who paused it: why"
  };

  // The state of one version, kept for who joins this stage now. At most one does.
  struct Giving {
    Joiner to;
    bool is_over = false;  // that version is past
    StageWork::JoinersState kept;
    std::vector<Digest> chunks;  // of what all replicas have in common, so far
    Payload table;               // of all
    Digest root;                 // zero: not known yet
  };

  struct KeptCheckpoint {
    int64_t round = 0;
    Payload bytes;
    std::vector<Digest> chunks;  // so far
    Instant used;
  };

  struct Shapes {  // of a plan's rounds, and who sums what in them
    int64_t plan_version = 0;
    int32_t stage = -1;
    std::map<int64_t, RoundShape> of;
    std::map<std::pair<uint64_t, int32_t>, std::vector<NodeId>> reducers;  // by shape and pieces
  };
};

}  // namespace skerry
