#include "coordinator/import_program.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/digest.h"
#include "common/share_line_program.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "model/export.h"
#include "model/stage_state.h"
#include "model/tensor_files.h"
#include "wire/config.h"

namespace skerry {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kContextDefault = 1024;
constexpr int64_t kZeroBytes = 1 << 20;

// The state of one stage as chunks, written as they fill.
class ChunkWriter {
 public:
  ChunkWriter(CheckpointArchive& archive, std::set<Digest>& written)
      : archive_(archive), written_(written) {}

  absl::Status Take(std::span<const uint8_t> bytes) {
    digest_.Add(bytes);
    return Append(bytes);
  }
  absl::Status TakeZeros(int64_t bytes) {
    const Bytes zeros(static_cast<size_t>(kZeroBytes));
    for (int64_t done = 0; done < bytes; done += kZeroBytes) {
      const auto part = static_cast<size_t>(std::min(kZeroBytes, bytes - done));
      SKERRY_RETURN_IF_ERROR(Take(std::span(zeros).first(part)));
    }
    return absl::OkStatus();
  }
  // Ends the state with its digest.
  absl::Status Finish(CheckpointStage* stage, int64_t* new_bytes) {
    const Digest sum = digest_.Finish();
    SKERRY_RETURN_IF_ERROR(Append(sum.bytes));
    if (!chunk_.empty()) SKERRY_RETURN_IF_ERROR(Put());
    stage->bytes = bytes_;
    stage->chunks = std::move(chunks_);
    *new_bytes += new_bytes_;
    return absl::OkStatus();
  }

 private:
  absl::Status Append(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const auto room = static_cast<size_t>(kCheckpointChunkBytes) - chunk_.size();
      const size_t part = std::min(room, bytes.size());
      chunk_.insert(chunk_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(part));
      bytes = bytes.subspan(part);
      if (chunk_.size() == static_cast<size_t>(kCheckpointChunkBytes)) {
        SKERRY_RETURN_IF_ERROR(Put());
      }
    }
    return absl::OkStatus();
  }
  absl::Status Put() {
    const Digest digest = DigestOf(std::span<const uint8_t>(chunk_));
    const auto size = static_cast<int64_t>(chunk_.size());
    chunks_.push_back(digest);
    bytes_ += size;
    Bytes chunk = std::move(chunk_);
    chunk_.clear();
    if (!written_.insert(digest).second) return absl::OkStatus();  // zeros are alike
    new_bytes_ += size;
    return archive_.PutVerified(digest, chunk);
  }

  CheckpointArchive& archive_;
  std::set<Digest>& written_;
  DigestStream digest_;
  Bytes chunk_;
  std::vector<Digest> chunks_;
  int64_t bytes_ = 0, new_bytes_ = 0;
};

absl::Status WriteStage(const TensorFiles& files, const ParameterLayout& layout, bool has_moments,
                        ChunkWriter& writer) {
  const int64_t moments = has_moments ? layout.size() : 0;
  SKERRY_RETURN_IF_ERROR(writer.Take(StateHeader({layout.size(), moments, 0, 0})));
  for (const TensorSlot& slot : layout.tensors()) {
    SKERRY_RETURN_IF_ERROR(files.ForEachPiece(slot, [&](std::span<const float> values) {
      return writer.Take(
          std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
    }));
  }
  return writer.TakeZeros(4 * (layout.size() + 2 * moments));
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
  std::set<Digest> written;
  const bool has_moments = config.inner.optimizer == InnerOptimizer::kAdamW;
  ShareLine line("reading the model");
  for (int32_t layer = 0; layer < model.layers; ++layer) {
    ChunkWriter writer(archive, written);
    const auto layout = ParameterLayout::ForStage(model, layer, layer + 1, layer == 0);
    SKERRY_RETURN_IF_ERROR(WriteStage(*files, layout, has_moments, writer));
    CheckpointStage stage{layer, layer + 1, layer == 0, 0, {}};
    SKERRY_RETURN_IF_ERROR(writer.Finish(&stage, &checkpoint.new_bytes));
    checkpoint.bytes += stage.bytes;
    checkpoint.stages.push_back(std::move(stage));
    line.Show(layer + 1, model.layers);
  }
  line.End();
  SKERRY_RETURN_IF_ERROR(archive.Commit(checkpoint));
  const std::string tokenizer = to + "/tokenizer";
  SKERRY_RETURN_IF_ERROR(CopyTokenizerFiles(directory, tokenizer));
  SKERRY_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(directory + "/config.json", 1 << 20));
  SKERRY_RETURN_IF_ERROR(WriteFileAtomically(tokenizer + "/config.json", text));
  return checkpoint;
}

}  // namespace skerry
