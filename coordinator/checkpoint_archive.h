// Checkpoints on a disk, content-addressed:
//
//   generations/000012.json  a manifest, and its BLAKE2b-256 on the last line
//   chunks/DIGEST            at most 4 MiB, named by what is in them; shared by generations
//   start/STAGE              the states that the plan in force begins with
//
// A generation is written chunks first, manifest last, each file there whole or not at all; it is
// dropped manifest first. So a process that dies anywhere leaves every generation whole that was,
// and at worst chunks that nobody names, which the next Keep removes. Chunks are waited for once,
// before their manifest: a machine that loses power before may keep short ones, which Held finds.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/guarded.h"
#include "coordinator/checkpoint_files.h"
#include "coordinator/checkpoint_store.h"
#include "model/parameter_layout.h"

namespace skerry {

struct OpenedStages;

class CheckpointArchive final : public CheckpointStore {
 public:
  // Puts the state of a stage together where that is no state of model/stage_state.h (simulations).
  // `round`: of which version it is then.
  using Recut = std::function<absl::StatusOr<Bytes>(const std::vector<Bytes>& states,
                                                    const StageAssignment& stage, int64_t round)>;
  explicit CheckpointArchive(std::unique_ptr<CheckpointFiles> files, Recut recut = nullptr)
      : files_(std::move(files)), recut_(std::move(recut)) {}

  absl::StatusOr<std::vector<bool>> Held(const std::vector<Digest>& chunks) override;
  absl::Status Put(std::span<const NamedChunk> chunks) override;
  absl::Status Commit(const Checkpoint& checkpoint) override;
  absl::Status Keep(const std::vector<int64_t>& generations) override;
  absl::Status Prepare(int64_t generation, int64_t round, const TransformerConfig& model,
                       const std::vector<StageAssignment>& stages) override;
  ObjectChunk Read(int32_t stage, const ObjectRequest& request) override;
  absl::Status Remake(Checkpoint* checkpoint, const std::vector<int32_t>& stages) override;

  // As Put, of bytes whose digests the caller has just computed. Several threads at once, where the
  // files take writers.
  absl::Status PutVerified(std::span<const NamedChunk> chunks);
  // Generations with a manifest, ascending.
  absl::StatusOr<std::vector<int64_t>> Generations();
  // DataLoss: the manifest is damaged or missing.
  absl::StatusOr<Checkpoint> Load(int64_t generation);
  // What is wrong with it, a line for each chunk: damaged, or missing. `reads`: every byte is read
  // and verified; else only whether the chunks are there.
  std::vector<std::string> Problems(const Checkpoint& checkpoint, bool reads);
  // The base parameters of the whole model, in the order of ParameterLayout::ForModel, piece by
  // piece. As Prepare.
  absl::Status StreamBase(const Checkpoint& checkpoint,
                          const std::function<absl::Status(std::span<const float>)>& take);
  // The same at once.
  absl::StatusOr<std::vector<float>> BaseOf(const Checkpoint& checkpoint);

 private:
  absl::StatusOr<Bytes> Whole(const Checkpoint& checkpoint, size_t stage);
  absl::Status WriteStart(const Checkpoint& checkpoint, const OpenedStages& opened,
                          const TransformerConfig& model, const StageAssignment& stage,
                          size_t index);
  absl::Status RemakeOne(Checkpoint* checkpoint, size_t lost);
  absl::Status RemakeHollow(Checkpoint* checkpoint, size_t lost);
  absl::Status WriteRecut(const Checkpoint& checkpoint, const StageAssignment& stage, size_t index);

  std::unique_ptr<CheckpointFiles> files_;
  struct Chunks {
    std::set<Digest> placed;  // written since the last Commit
    std::set<Digest> synced;  // known to be on the disk
  };
  Guarded<Chunks> chunks_;
  Recut recut_;
};

// Whether their layers can be averaged one by one.
bool HaveOneShape(const CheckpointStage& lost, const CheckpointStage& neighbour);

// "chunk 3 of stage 1 (model.layers.2.mlp.up_proj.weight of the outer momentum)".
std::string DescribeChunk(const Checkpoint& checkpoint, size_t stage, size_t chunk);

// A manifest as text, and back.
std::string ManifestText(const Checkpoint& checkpoint);
absl::StatusOr<Checkpoint> ParseManifest(const std::string& text);

}  // namespace skerry
