// The state of a stage (model/stage_state.h) on its way into an archive: cut into chunks, written
// some at a time, ended by its digest.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/tree_digest.h"
#include "coordinator/checkpoint_archive.h"

namespace skerry {

// One thread owns it; several may write into one archive, where that takes writers.
class StageWriter {
 public:
  explicit StageWriter(CheckpointArchive& archive) : archive_(archive) {}

  // The next bytes of the state, header first.
  absl::Status Add(std::span<const uint8_t> bytes);
  // After all: says how long the state is and of which chunks.
  absl::Status Finish(CheckpointStage* stage);

 private:
  absl::Status Append(std::span<const uint8_t> bytes);
  absl::Status PutFilled();

  CheckpointArchive& archive_;
  TreeDigestStream digest_;
  std::vector<Bytes> filled_;  // the last one may have room
  std::vector<Digest> chunks_;
  int64_t bytes_ = 0;
};

}  // namespace skerry
