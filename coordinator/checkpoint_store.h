// What the coordinator's state machine wants of wherever checkpoints are kept.
//
// A *generation* is one whole state of a run at one version of the base: of every stage the base,
// outer momentum and inner moments, as chunks named by their digest, and a manifest that lists
// them. Bodies: coordinator/checkpoint_archive.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "wire/message/message.h"
#include "wire/message/pipeline_plan.h"

namespace skerry {

struct CheckpointStage {
  int32_t first_layer = 0;
  int32_t last_layer = 0;
  bool holds_ends = false;
  int64_t bytes = 0;           // of its state (model/stage_state.h)
  std::vector<Digest> chunks;  // of kCheckpointChunkBytes each, the last shorter
  bool operator==(const CheckpointStage&) const = default;
};

struct Checkpoint {
  int64_t generation = 0;  // from 1; never used twice in a run
  int64_t round = 0;       // the base's version
  int64_t step = 0;        // inner steps that it holds
  int64_t tokens = 0;      // credited for those steps
  int64_t bytes = 0;
  int64_t new_bytes = 0;             // of chunks that were not there before
  std::vector<int32_t> remade = {};  // layers that neighbours gave, one entry each time
  std::string run;                   // of which it is; hex
  std::string config;                // run.toml text, with what the planner chose
  TransformerConfig model;
  std::vector<CheckpointStage> stages;
};

// As many chunks as are digested in one go, where that many are at hand.
inline constexpr size_t kChunksTogether = 8;

struct NamedChunk {
  Digest digest;
  Payload bytes;
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // ---- on the device thread ----

  // Of each chunk: is it here, so that it need not be fetched?
  virtual absl::StatusOr<std::vector<bool>> Held(const std::vector<Digest>& chunks) = 0;
  // On the disk with the Commit of a checkpoint that names them. DataLoss: bytes are not those of
  // their digest; then none was written.
  virtual absl::Status Put(std::span<const NamedChunk> chunks) = 0;
  // The manifest, after all chunks: from now on the generation is whole.
  virtual absl::Status Commit(const Checkpoint& checkpoint) = 0;
  // Makes the states of `stages` from their neighbours' (model/stage_remake.h), writes their chunks
  // and lists them. `checkpoint` lists those of all others, which are here. DataLoss names a chunk
  // that is not, FailedPrecondition: a stage has no two neighbours of its shape.
  virtual absl::Status Remake(Checkpoint* checkpoint, const std::vector<int32_t>& stages) = 0;
  // Drops all other generations, then every chunk that no manifest names.
  virtual absl::Status Keep(const std::vector<int64_t>& generations) = 0;
  // Reads and verifies every chunk that the stages need, and puts their states together, whatever
  // stages the generation was of, as of base version `round`. DataLoss names the stage, chunk and
  // tensor that is damaged or missing.
  virtual absl::Status Prepare(int64_t generation, int64_t round, const TransformerConfig& model,
                               const std::vector<StageAssignment>& stages) = 0;

  // ---- any thread, quick ----

  // Of what was prepared last: part of the state of a stage; total_bytes −1 if there is none.
  virtual ObjectChunk Read(int32_t stage, const ObjectRequest& request) = 0;
};

}  // namespace skerry
