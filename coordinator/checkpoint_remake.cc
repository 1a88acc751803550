// Stages of a generation that are made from their neighbours (model/stage_remake.h), in a stream:
// what is in memory is some chunks of each.

#include <algorithm>
#include <cstring>

#include "common/digest.h"
#include "common/status.h"
#include "coordinator/checkpoint_archive.h"
#include "coordinator/chunk_reader.h"
#include "coordinator/stage_writer.h"
#include "model/stage_remake.h"
#include "model/stage_state.h"

namespace skerry {
namespace {

constexpr int64_t kPartFloats = 1 << 18;
enum Array : int64_t { kBase, kMomentum, kFirstMoment, kSecondMoment, kArrays };

ParameterLayout LayersOf(const TransformerConfig& model, const CheckpointStage& stage) {
  return ParameterLayout::ForStage(model, stage.first_layer, stage.last_layer, false);
}

}  // namespace

// One neighbour, read wherever its layers are.
class NeighbourReader {
 public:
  NeighbourReader(CheckpointFiles& files, const Checkpoint& checkpoint, size_t stage)
      : chunks_(files, checkpoint), checkpoint_(checkpoint), stage_(stage) {}

  absl::Status Open() {
    const CheckpointStage& of = checkpoint_.stages[stage_];
    SKERRY_ASSIGN_OR_RETURN(const Bytes first, Read(0, kStateHeaderBytes));
    SKERRY_ASSIGN_OR_RETURN(sizes_, SizesOfState(first));
    whole_ =
        ParameterLayout::ForStage(checkpoint_.model, of.first_layer, of.last_layer, of.holds_ends);
    layers_ = LayersOf(checkpoint_.model, of);
    if (sizes_.parameters == whole_.size()) return absl::OkStatus();
    return DataLoss("checkpoint %d: stage %d is not of its layers", checkpoint_.generation, stage_);
  }
  const StateSizes& sizes() const { return sizes_; }
  const ParameterLayout& layers() const { return layers_; }

  // `count` values from `first` on of the i-th tensor of its layers.
  absl::StatusOr<std::vector<float>> Values(int64_t array, size_t tensor, int64_t first,
                                            int64_t count) {
    const TensorSlot* slot = whole_.Find(layers_.tensors()[tensor].name);
    const int64_t n = sizes_.parameters, m = sizes_.moments;
    const int64_t before = array < kFirstMoment ? array * n : 2 * n + (array - kFirstMoment) * m;
    SKERRY_ASSIGN_OR_RETURN(
        const Bytes bytes,
        Read(kStateHeaderBytes + 4 * (before + slot->offset + first), 4 * count));
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  absl::StatusOr<double> GradientNormSquared() {
    double sum = 0;
    if (sizes_.moments == 0) return sum;
    for (size_t t = 0; t < layers_.tensors().size(); ++t) {
      const int64_t size = layers_.tensors()[t].size();
      for (int64_t done = 0; done < size; done += kPartFloats) {
        SKERRY_ASSIGN_OR_RETURN(const auto values,
                                Values(kSecondMoment, t, done, std::min(kPartFloats, size - done)));
        AddInOrder(values, &sum);
      }
    }
    return sum;
  }

 private:
  absl::StatusOr<Bytes> Read(int64_t offset, int64_t length) {
    Bytes out;
    while (length > 0) {
      const auto chunk = static_cast<size_t>(offset / kCheckpointChunkBytes);
      SKERRY_ASSIGN_OR_RETURN(const auto held, chunks_.Get(stage_, chunk));
      const int64_t within = offset % kCheckpointChunkBytes;
      const int64_t part = std::min(length, std::ssize(held) - within);
      if (part <= 0) return DataLoss("checkpoint %d: a chunk is short", checkpoint_.generation);
      out.insert(out.end(), held.begin() + within, held.begin() + within + part);
      offset += part;
      length -= part;
    }
    return out;
  }

  ChunkReader chunks_;
  const Checkpoint& checkpoint_;
  size_t stage_;
  StateSizes sizes_;
  ParameterLayout whole_, layers_;
};

bool HaveOneShape(const CheckpointStage& lost, const CheckpointStage& neighbour) {
  return lost.last_layer - lost.first_layer == neighbour.last_layer - neighbour.first_layer;
}

absl::Status CheckpointArchive::RemakeOne(Checkpoint* checkpoint, size_t lost) {
  NeighbourReader before(*files_, *checkpoint, lost - 1), after(*files_, *checkpoint, lost + 1);
  SKERRY_RETURN_IF_ERROR(before.Open());
  SKERRY_RETURN_IF_ERROR(after.Open());
  CheckpointStage made = checkpoint->stages[lost];
  const ParameterLayout layout = LayersOf(checkpoint->model, made);
  const bool has_moments = before.sizes().moments > 0 && after.sizes().moments > 0;
  SKERRY_ASSIGN_OR_RETURN(const double norm_before, before.GradientNormSquared());
  SKERRY_ASSIGN_OR_RETURN(const double norm_after, after.GradientNormSquared());
  const RemadeWeights weights = WeightsOfNeighbours(norm_before, norm_after);
  StageWriter writer(*this);
  SKERRY_RETURN_IF_ERROR(
      writer.Add(StateHeader({layout.size(), has_moments ? layout.size() : 0, checkpoint->round,
                              std::min(before.sizes().inner_steps, after.sizes().inner_steps)})));
  for (int64_t array = 0; array < (has_moments ? kArrays : kFirstMoment); ++array) {
    for (size_t t = 0; t < layout.tensors().size(); ++t) {
      const int64_t size = layout.tensors()[t].size();
      for (int64_t done = 0; done < size; done += kPartFloats) {
        const int64_t count = std::min(kPartFloats, size - done);
        std::vector<float> out(static_cast<size_t>(count), 0.0f);
        if (array == kBase || array == kSecondMoment) {
          SKERRY_ASSIGN_OR_RETURN(const auto a, before.Values(array, t, done, count));
          SKERRY_ASSIGN_OR_RETURN(const auto b, after.Values(array, t, done, count));
          MeanOfNeighbours(weights, a, b, out);
        }
        const auto* bytes = reinterpret_cast<const uint8_t*>(out.data());
        SKERRY_RETURN_IF_ERROR(writer.Add({bytes, out.size() * sizeof(float)}));
      }
    }
  }
  SKERRY_RETURN_IF_ERROR(writer.Finish(&made));
  checkpoint->stages[lost] = std::move(made);
  return absl::OkStatus();
}

// Without arithmetic: of what both neighbours hold.
absl::Status CheckpointArchive::RemakeHollow(Checkpoint* checkpoint, size_t lost) {
  CheckpointStage& stage = checkpoint->stages[lost];
  SKERRY_ASSIGN_OR_RETURN(Bytes before, Whole(*checkpoint, lost - 1));
  SKERRY_ASSIGN_OR_RETURN(Bytes after, Whole(*checkpoint, lost + 1));
  SKERRY_ASSIGN_OR_RETURN(const Bytes made,
                          recut_({std::move(before), std::move(after)},
                                 {stage.first_layer, stage.last_layer, {}}, checkpoint->round));
  stage.bytes = std::ssize(made);
  stage.chunks = {DigestOf(std::span<const uint8_t>(made))};
  const NamedChunk chunk{stage.chunks.front(), MakePayload(made)};
  return PutVerified(std::span(&chunk, 1));
}

absl::Status CheckpointArchive::Remake(Checkpoint* checkpoint, const std::vector<int32_t>& stages) {
  for (const int32_t stage : stages) {
    const auto at = static_cast<size_t>(stage);
    const auto& all = checkpoint->stages;
    const bool is_between = stage > 0 && at + 1 < all.size();
    if (!is_between || !HaveOneShape(all[at], all[at - 1]) || !HaveOneShape(all[at], all[at + 1])) {
      return FailedPrecondition("stage %d has no two neighbours of its shape", stage);
    }
    SKERRY_RETURN_IF_ERROR(recut_ ? RemakeHollow(checkpoint, at) : RemakeOne(checkpoint, at));
  }
  return absl::OkStatus();
}

}  // namespace skerry
