#include "coordinator/checkpoint_archive.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "common/parallel.h"
#include "common/status.h"
#include "common/tree_digest.h"
#include "coordinator/chunk_reader.h"
#include "model/stage_state.h"

namespace skerry {
namespace {

constexpr int64_t kManifestBytesMax = int64_t{256} << 20;

std::string ManifestPath(int64_t generation) {
  return absl::StrFormat("generations/%06d.json", generation);
}
std::string StartPath(int64_t stage) {
  return absl::StrFormat("start/%d", stage);
}

absl::Status WriteFile(CheckpointFiles& files, const std::string& path,
                       std::span<const uint8_t> bytes) {
  SKERRY_ASSIGN_OR_RETURN(const auto file, files.Create(path));
  SKERRY_RETURN_IF_ERROR(file->Write(bytes));
  return file->Commit();
}

absl::Status PlaceFile(CheckpointFiles& files, const std::string& path,
                       std::span<const uint8_t> bytes) {
  SKERRY_ASSIGN_OR_RETURN(const auto file, files.Create(path));
  SKERRY_RETURN_IF_ERROR(file->Write(bytes));
  return file->Place();
}

size_t WritersOf(const CheckpointFiles& files) {
  return files.takes_writers() ? kReadersMax : 1;
}

}  // namespace

absl::StatusOr<std::vector<bool>> CheckpointArchive::Held(const std::vector<Digest>& chunks) {
  const std::vector<ChunkFault> faults = FaultsOf(*files_, chunks);
  return chunks_.With([&](Chunks& known) {
    std::vector<bool> held;
    for (size_t i = 0; i < chunks.size(); ++i) {
      held.push_back(faults[i] == ChunkFault::kNone);
      if (!held[i]) known.placed.erase(chunks[i]);  // what the disk has spoilt is fetched anew
    }
    return held;
  });
}

absl::Status CheckpointArchive::Put(std::span<const NamedChunk> chunks) {
  std::vector<std::span<const uint8_t>> bytes;
  for (const NamedChunk& chunk : chunks) bytes.push_back(View(chunk.bytes));
  const std::vector<Digest> found = DigestsOnThreads(bytes, WritersOf(*files_));
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (found[i] != chunks[i].digest) {
      return DataLoss("a chunk of a checkpoint is not what its digest says");
    }
  }
  return PutVerified(chunks);
}

// Chunks that are alike, as those of zeros are, are written once.
absl::Status CheckpointArchive::PutVerified(std::span<const NamedChunk> chunks) {
  const std::vector<const NamedChunk*> fresh = chunks_.With([&](Chunks& known) {
    std::vector<const NamedChunk*> of;
    for (const NamedChunk& chunk : chunks) {
      known.synced.erase(chunk.digest);
      if (known.placed.insert(chunk.digest).second) of.push_back(&chunk);
    }
    return of;
  });
  std::vector<absl::Status> written(fresh.size());
  InParallel(fresh.size(), WritersOf(*files_), [&](size_t i) {
    written[i] = PlaceFile(*files_, ChunkPath(fresh[i]->digest), View(fresh[i]->bytes));
  });
  for (const absl::Status& status : written) {
    if (status.ok()) continue;
    chunks_.With([&](Chunks& known) {
      for (const NamedChunk* chunk : fresh) known.placed.erase(chunk->digest);
    });
    return status;
  }
  return absl::OkStatus();
}

absl::Status CheckpointArchive::Commit(const Checkpoint& checkpoint) {
  const std::vector<std::string> problems = Problems(checkpoint, false);
  if (!problems.empty()) return DataLoss("%s", problems.front());
  std::set<Digest> fresh;
  for (const CheckpointStage& stage : checkpoint.stages) {
    fresh.insert(stage.chunks.begin(), stage.chunks.end());
  }
  chunks_.With([&](Chunks& known) {
    std::erase_if(fresh, [&](const Digest& chunk) { return known.synced.contains(chunk); });
  });
  std::vector<std::string> names;
  for (const Digest& chunk : fresh) names.push_back(chunk.Hex());
  SKERRY_RETURN_IF_ERROR(files_->Sync("chunks", names));
  chunks_.With([&](Chunks& known) {
    known.synced.merge(fresh);
    known.placed.clear();
  });
  const std::string text = ManifestText(checkpoint);
  return WriteFile(*files_, ManifestPath(checkpoint.generation),
                   std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

absl::StatusOr<std::vector<int64_t>> CheckpointArchive::Generations() {
  SKERRY_ASSIGN_OR_RETURN(const auto names, files_->List("generations"));
  std::vector<int64_t> generations;
  for (const std::string& name : names) {
    int64_t generation = 0;
    const size_t dot = name.find('.');
    if (dot != std::string::npos && absl::SimpleAtoi(name.substr(0, dot), &generation)) {
      generations.push_back(generation);
    }
  }
  std::sort(generations.begin(), generations.end());
  return generations;
}

absl::StatusOr<Checkpoint> CheckpointArchive::Load(int64_t generation) {
  const auto bytes = files_->Read(ManifestPath(generation), 0, [&] {
    return std::clamp<int64_t>(files_->SizeOf(ManifestPath(generation)), 0, kManifestBytesMax);
  }());
  if (!bytes.ok()) return DataLoss("checkpoint %d has no manifest", generation);
  auto checkpoint = ParseManifest(std::string(bytes->begin(), bytes->end()));
  if (!checkpoint.ok()) {
    return Annotate(checkpoint.status(), absl::StrFormat("checkpoint %d", generation));
  }
  return checkpoint;
}

// Manifests that cannot be read keep no chunk: what they name is not known.
absl::Status CheckpointArchive::Keep(const std::vector<int64_t>& generations) {
  SKERRY_ASSIGN_OR_RETURN(const auto present, Generations());
  std::set<std::string> named;
  for (const int64_t generation : present) {
    const bool stays =
        std::find(generations.begin(), generations.end(), generation) != generations.end();
    if (!stays) {
      SKERRY_RETURN_IF_ERROR(files_->Remove(ManifestPath(generation)));
      continue;
    }
    SKERRY_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Load(generation));
    for (const CheckpointStage& stage : checkpoint.stages) {
      for (const Digest& chunk : stage.chunks) named.insert(chunk.Hex());
    }
  }
  SKERRY_ASSIGN_OR_RETURN(const auto chunks, files_->List("chunks"));
  for (const std::string& chunk : chunks) {
    if (!named.contains(chunk)) SKERRY_RETURN_IF_ERROR(files_->Remove("chunks/" + chunk));
  }
  const auto is_gone = [&](const Digest& chunk) { return !named.contains(chunk.Hex()); };
  chunks_.With([&](Chunks& known) {
    std::erase_if(known.placed, is_gone);
    std::erase_if(known.synced, is_gone);
  });
  return absl::OkStatus();
}

std::vector<std::string> CheckpointArchive::Problems(const Checkpoint& checkpoint, bool reads) {
  std::map<Digest, ChunkFault> faults;  // stages may share chunks
  std::vector<Digest> all;
  for (const CheckpointStage& stage : checkpoint.stages) {
    for (const Digest& chunk : stage.chunks) {
      if (faults.emplace(chunk, ChunkFault::kNone).second) all.push_back(chunk);
    }
  }
  const auto found = reads ? FaultsOf(*files_, all) : std::vector<ChunkFault>();
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_there = reads || files_->SizeOf(ChunkPath(all[i])) >= 0;
    faults[all[i]] = reads ? found[i] : is_there ? ChunkFault::kNone : ChunkFault::kMissing;
  }
  std::vector<std::string> problems;
  for (size_t stage = 0; stage < checkpoint.stages.size(); ++stage) {
    const std::vector<Digest>& chunks = checkpoint.stages[stage].chunks;
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
      const ChunkFault fault = faults.at(chunks[chunk]);
      if (fault == ChunkFault::kNone) continue;
      problems.push_back(FaultText(checkpoint, stage, chunk, fault));
    }
  }
  return problems;
}

// ---- putting states together -------------------------------------------------------------------

// What the stages of a generation hold.
struct OpenedStages {
  std::vector<ParameterLayout> layouts;
  std::vector<StateSizes> sizes;
};

namespace {

absl::StatusOr<OpenedStages> OpenStages(CheckpointFiles& files, const Checkpoint& checkpoint) {
  OpenedStages opened;
  ChunkReader chunks(files, checkpoint);
  for (size_t s = 0; s < checkpoint.stages.size(); ++s) {
    const CheckpointStage& stage = checkpoint.stages[s];
    SKERRY_ASSIGN_OR_RETURN(const auto first, chunks.Get(s, 0, 1));
    SKERRY_ASSIGN_OR_RETURN(const StateSizes sizes, SizesOfState(first));
    opened.layouts.push_back(ParameterLayout::ForStage(checkpoint.model, stage.first_layer,
                                                       stage.last_layer, stage.holds_ends));
    // Sizes as such are not compared: in simulations a state stands for a larger one.
    const bool fits = sizes.parameters == opened.layouts.back().size() &&
                      (s == 0 || (sizes.moments > 0) == (opened.sizes.front().moments > 0));
    if (!fits) {
      return DataLoss("checkpoint %d: stage %d is not of its layers", checkpoint.generation, s);
    }
    opened.sizes.push_back(sizes);
  }
  if (opened.sizes.empty()) return DataLoss("a checkpoint of no stages");
  return opened;
}

// Reads values of the stages of a generation, wherever they are cut. One thread owns it.
class StageReader {
 public:
  StageReader(CheckpointFiles& files, const Checkpoint& checkpoint, const OpenedStages& opened)
      : chunks_(files, checkpoint),
        checkpoint_(checkpoint),
        layouts_(opened.layouts),
        sizes_(opened.sizes) {}

  bool has_moments() const { return sizes_.front().moments > 0; }
  int64_t inner_steps() const { return sizes_.front().inner_steps; }

  // One of the four arrays of a stage's tensors, in the order of `layout`.
  absl::Status ForEach(const ParameterLayout& layout, int64_t array,
                       const std::function<absl::Status(std::span<const uint8_t>)>& take) {
    for (const TensorSlot& tensor : layout.tensors()) {
      const auto at = Find(tensor);
      if (!at) {
        return DataLoss("checkpoint %d has no tensor %s of %d values", checkpoint_.generation,
                        tensor.name, tensor.size());
      }
      const int64_t first = OffsetOf(at->first, array) + 4 * at->second;
      SKERRY_RETURN_IF_ERROR(Read(at->first, first, 4 * tensor.size(), take));
    }
    return absl::OkStatus();
  }

 private:
  std::optional<std::pair<size_t, int64_t>> Find(const TensorSlot& tensor) const {
    for (size_t s = 0; s < layouts_.size(); ++s) {
      const TensorSlot* slot = layouts_[s].Find(tensor.name);
      if (slot != nullptr && slot->rows == tensor.rows && slot->columns == tensor.columns) {
        return std::pair{s, slot->offset};
      }
    }
    return std::nullopt;
  }
  int64_t OffsetOf(size_t stage, int64_t array) const {
    const int64_t n = sizes_[stage].parameters, m = sizes_[stage].moments;
    return kStateHeaderBytes + 4 * (array < 2 ? array * n : 2 * n + (array - 2) * m);
  }
  absl::Status Read(size_t stage, int64_t offset, int64_t length,
                    const std::function<absl::Status(std::span<const uint8_t>)>& take) {
    while (length > 0) {
      SKERRY_ASSIGN_OR_RETURN(
          const auto chunk,
          chunks_.Get(stage, static_cast<size_t>(offset / kCheckpointChunkBytes)));
      const int64_t within = offset % kCheckpointChunkBytes;
      const int64_t part = std::min(length, static_cast<int64_t>(chunk.size()) - within);
      if (part <= 0) return DataLoss("checkpoint %d: a chunk is short", checkpoint_.generation);
      SKERRY_RETURN_IF_ERROR(
          take(chunk.subspan(static_cast<size_t>(within), static_cast<size_t>(part))));
      offset += part;
      length -= part;
    }
    return absl::OkStatus();
  }

  ChunkReader chunks_;
  const Checkpoint& checkpoint_;
  const std::vector<ParameterLayout>& layouts_;
  const std::vector<StateSizes>& sizes_;
};

}  // namespace

absl::Status CheckpointArchive::WriteStart(const Checkpoint& checkpoint, const OpenedStages& opened,
                                           const TransformerConfig& model,
                                           const StageAssignment& stage, size_t index) {
  StageReader reader(*files_, checkpoint, opened);
  const auto layout =
      ParameterLayout::ForStage(model, stage.first_layer, stage.last_layer, index == 0);
  const int64_t moments = reader.has_moments() ? layout.size() : 0;
  const Bytes head = StateHeader({layout.size(), moments, checkpoint.round, reader.inner_steps()});
  SKERRY_ASSIGN_OR_RETURN(const auto file, files_->Create(StartPath(static_cast<int64_t>(index))));
  TreeDigestStream digest;
  const auto take = [&](std::span<const uint8_t> bytes) {
    digest.Add(bytes);
    return file->Write(bytes);
  };
  SKERRY_RETURN_IF_ERROR(take(head));
  for (int64_t array = 0; array < (moments > 0 ? 4 : 2); ++array) {
    SKERRY_RETURN_IF_ERROR(reader.ForEach(layout, array, take));
  }
  const Digest sum = digest.Finish();
  SKERRY_RETURN_IF_ERROR(file->Write(sum.bytes));
  return file->Commit();
}

absl::StatusOr<Bytes> CheckpointArchive::Whole(const Checkpoint& checkpoint, size_t stage) {
  Bytes whole;
  whole.reserve(static_cast<size_t>(checkpoint.stages[stage].bytes));
  ChunkReader chunks(*files_, checkpoint);
  for (size_t c = 0; c < checkpoint.stages[stage].chunks.size(); ++c) {
    SKERRY_ASSIGN_OR_RETURN(const auto chunk, chunks.Get(stage, c));
    whole.insert(whole.end(), chunk.begin(), chunk.end());
  }
  return whole;
}

absl::Status CheckpointArchive::WriteRecut(const Checkpoint& checkpoint,
                                           const StageAssignment& stage, size_t index) {
  std::vector<Bytes> states;
  for (size_t s = 0; s < checkpoint.stages.size(); ++s) {
    SKERRY_ASSIGN_OR_RETURN(Bytes whole, Whole(checkpoint, s));
    states.push_back(std::move(whole));
  }
  SKERRY_ASSIGN_OR_RETURN(const Bytes state, recut_(states, stage, checkpoint.round));
  return WriteFile(*files_, StartPath(static_cast<int64_t>(index)), state);
}

absl::Status CheckpointArchive::Prepare(int64_t generation, int64_t round,
                                        const TransformerConfig& model,
                                        const std::vector<StageAssignment>& stages) {
  SKERRY_ASSIGN_OR_RETURN(Checkpoint checkpoint, Load(generation));
  checkpoint.round = round;
  SKERRY_ASSIGN_OR_RETURN(const auto before, files_->List("start"));
  for (const std::string& name : before) SKERRY_RETURN_IF_ERROR(files_->Remove("start/" + name));
  if (recut_) {
    for (size_t i = 0; i < stages.size(); ++i) {
      SKERRY_RETURN_IF_ERROR(WriteRecut(checkpoint, stages[i], i));
    }
    return absl::OkStatus();
  }
  SKERRY_ASSIGN_OR_RETURN(const OpenedStages opened, OpenStages(*files_, checkpoint));
  std::vector<absl::Status> written(stages.size());
  InParallel(stages.size(), WritersOf(*files_),
             [&](size_t i) { written[i] = WriteStart(checkpoint, opened, model, stages[i], i); });
  for (const absl::Status& status : written) SKERRY_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

ObjectChunk CheckpointArchive::Read(int32_t stage, const ObjectRequest& request) {
  const std::string path = StartPath(stage);
  const int64_t total = files_->SizeOf(path);
  if (total < 0 || request.offset >= total) return {request.object, request.offset, -1, nullptr};
  auto bytes = files_->Read(path, request.offset, std::min(request.length, total - request.offset));
  if (!bytes.ok()) return {request.object, request.offset, -1, nullptr};
  return {request.object, request.offset, total, MakePayload(*std::move(bytes))};
}

absl::Status CheckpointArchive::StreamBase(
    const Checkpoint& checkpoint, const std::function<absl::Status(std::span<const float>)>& take) {
  SKERRY_ASSIGN_OR_RETURN(const OpenedStages opened, OpenStages(*files_, checkpoint));
  StageReader reader(*files_, checkpoint, opened);
  std::vector<float> values;
  return reader.ForEach(ParameterLayout::ForModel(checkpoint.model), 0,
                        [&](std::span<const uint8_t> bytes) {
                          values.resize(bytes.size() / sizeof(float));
                          std::memcpy(values.data(), bytes.data(), bytes.size());
                          return take(values);
                        });
}

absl::StatusOr<std::vector<float>> CheckpointArchive::BaseOf(const Checkpoint& checkpoint) {
  std::vector<float> base;
  base.reserve(static_cast<size_t>(ParameterLayout::ForModel(checkpoint.model).size()));
  SKERRY_RETURN_IF_ERROR(StreamBase(checkpoint, [&](std::span<const float> values) {
    base.insert(base.end(), values.begin(), values.end());
    return absl::OkStatus();
  }));
  return base;
}

}  // namespace skerry
