#include "coordinator/import_program.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "common/parallel.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/chunk_reader.h"
#include "coordinator/stage_writer.h"
#include "model/export.h"
#include "model/stage_state.h"
#include "model/tensor_files.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kContextDefault = 1024;
constexpr int64_t kZeroBytes = 1 << 20;

absl::Status AddZeros(StageWriter& writer, int64_t bytes) {
  const Bytes zeros(static_cast<size_t>(kZeroBytes));
  for (int64_t done = 0; done < bytes; done += kZeroBytes) {
    const auto part = static_cast<size_t>(std::min(kZeroBytes, bytes - done));
    SKERRY_RETURN_IF_ERROR(writer.Add(std::span(zeros).first(part)));
  }
  return absl::OkStatus();
}

absl::Status WriteStage(const TensorFiles& files, const TransformerConfig& model, bool has_moments,
                        CheckpointArchive& archive, CheckpointStage* stage) {
  const auto layout =
      ParameterLayout::ForStage(model, stage->first_layer, stage->last_layer, stage->holds_ends);
  const int64_t moments = has_moments ? layout.size() : 0;
  StageWriter writer(archive);
  SKERRY_RETURN_IF_ERROR(writer.Add(StateHeader({layout.size(), moments, 0, 0})));
  for (const TensorSlot& slot : layout.tensors()) {
    SKERRY_RETURN_IF_ERROR(files.ForEachPiece(slot, [&](std::span<const float> values) {
      return writer.Add(
          std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
    }));
  }
  SKERRY_RETURN_IF_ERROR(AddZeros(writer, 4 * (layout.size() + 2 * moments)));
  return writer.Finish(stage);
}

// Layer by layer, several at a time.
absl::Status WriteStages(const TensorFiles& files, const TransformerConfig& model, bool has_moments,
                         CheckpointArchive& archive, std::vector<CheckpointStage>* stages) {
  ShareLine line("reading the model");
  std::mutex mutex;  // of `line` and `done`
  int64_t done = 0;
  for (int32_t layer = 0; layer < model.layers; ++layer) {
    stages->push_back({layer, layer + 1, layer == 0, 0, {}});
  }
  std::vector<absl::Status> written(stages->size());
  InParallel(stages->size(), kReadersMax, [&](size_t i) {
    written[i] = WriteStage(files, model, has_moments, archive, &(*stages)[i]);
    const std::lock_guard lock(mutex);
    line.Show(++done, model.layers);
  });
  line.End();
  for (const absl::Status& status : written) SKERRY_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// Chunks that are alike are one on the disk.
void CountBytes(Checkpoint* checkpoint) {
  std::set<Digest> seen;
  for (const CheckpointStage& stage : checkpoint->stages) {
    checkpoint->bytes += stage.bytes;
    int64_t left = stage.bytes;
    for (const Digest& chunk : stage.chunks) {
      const int64_t size = std::min(kCheckpointChunkBytes, left);
      if (seen.insert(chunk).second) checkpoint->new_bytes += size;
      left -= size;
    }
  }
}

}  // namespace

bool IsHuggingFaceDirectory(const std::string& directory) {
  return fs::exists(directory + "/config.json") && !fs::exists(directory + "/run.toml");
}

absl::StatusOr<RunConfig> ConfigForModel(const std::string& directory) {
  RunConfig config;
  config.outer.overlap_steps = -1;  // the planner will have measured the links
  config.checkpoint = kInitialCheckpoints;
  config.nodes_min = 2;
  config.pipeline.skip_ratio = 0;  // it was trained whole
  config.pipeline.sequences_per_microbatch = 1;
  config.inner.learning_rate = 1e-4f;
  config.inner.min_learning_rate = 1e-5f;
  SKERRY_ASSIGN_OR_RETURN(const TransformerConfig model, ReadHuggingFaceConfig(directory));
  config.model.context = std::min(model.context, kContextDefault);
  return ConfigForModel(directory, config);
}

absl::StatusOr<RunConfig> ConfigForModel(const std::string& directory, RunConfig wished) {
  SKERRY_ASSIGN_OR_RETURN(TransformerConfig model, ReadHuggingFaceConfig(directory));
  if (wished.model.context > model.context) {
    return InvalidArgument("[model] context: %d; the model in %s reaches %d tokens",
                           wished.model.context, directory, model.context);
  }
  model.context = wished.model.context;
  wished.model = model;
  SKERRY_RETURN_IF_ERROR(ValidateRunConfig(wished));
  return wished;
}

absl::StatusOr<Checkpoint> ImportModel(const std::string& directory, const std::string& to,
                                       const RunConfig& config) {
  SKERRY_ASSIGN_OR_RETURN(const auto files, TensorFiles::Open(directory));
  const TransformerConfig& model = config.model;
  SKERRY_RETURN_IF_ERROR(files->CheckAgainst(ParameterLayout::ForModel(model)));
  SKERRY_ASSIGN_OR_RETURN(auto disk, DiskCheckpointFiles::Open(to + "/checkpoints"));
  CheckpointArchive archive(std::move(disk));
  Checkpoint checkpoint;
  checkpoint.generation = 1;
  checkpoint.run = "imported";
  checkpoint.config = FormatRunConfig(config);
  checkpoint.model = model;
  const bool has_moments = config.inner.optimizer == InnerOptimizer::kAdamW;
  SKERRY_RETURN_IF_ERROR(WriteStages(*files, model, has_moments, archive, &checkpoint.stages));
  CountBytes(&checkpoint);
  SKERRY_RETURN_IF_ERROR(archive.Commit(checkpoint));
  const std::string tokenizer = to + "/tokenizer";
  SKERRY_RETURN_IF_ERROR(CopyTokenizerFiles(directory, tokenizer));
  SKERRY_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(directory + "/config.json", 1 << 20));
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(tokenizer + "/config.json", text));
  return checkpoint;
}

}  // namespace skerry
