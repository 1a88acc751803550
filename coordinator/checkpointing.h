// The generation that is being made (ops_checkpoint.cc, ops_neighbours.cc).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator_actor.h"

namespace skerry {

struct CoordinatorActor::Checkpointing {
  struct Stage {
    NodeId replica;
    bool is_asked = false;
    std::set<NodeId> tried;  // they did not have it, or are gone
    int64_t round = 0;       // the version that it is given of
    bool is_listed = false;
    std::vector<bool> held;  // chunks on the disk; empty: not looked up
    size_t chunk = 0;        // fetched now
    int64_t requested = 0;   // of it
    int64_t received = 0;
    Bytes bytes;
    std::vector<NamedChunk> unwritten;
    bool is_done = false;
    Instant progress;
  };
  struct Work {
    size_t stage = 0;
    bool looks_up = false;
    std::vector<bool> held;
    absl::Status status;
  };
  Checkpoint made;
  // Stages that are made from their neighbours once those are here (ops_neighbours.cc), and why; a
  // usual generation has none.
  std::vector<int32_t> lost;
  std::string reason;
  std::vector<Stage> stages;
  std::map<JobId, std::pair<size_t, std::shared_ptr<Work>>> jobs;
  JobId commit_job = 0;
  struct Committed {
    Checkpoint made;
    absl::Status status;
  };
  std::shared_ptr<Committed> committed;

  int64_t ChunkBytes(size_t stage, size_t chunk) const {
    const int64_t begin = static_cast<int64_t>(chunk) * kCheckpointChunkBytes;
    return std::min(kCheckpointChunkBytes, made.stages[stage].bytes - begin);
  }
};

}  // namespace skerry
