// What others have of a stage without arithmetic: its state for checkpoints and joiners, its
// gradients for a cohort.

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "common/backward_cut.h"
#include "common/digest.h"
#include "common/status.h"
#include "routing/cost_model.h"
#include "sim/modelled_stage.h"

namespace skerry {
namespace {

Bytes BytesOf(uint64_t fingerprint) {
  Bytes bytes(sizeof fingerprint);
  std::memcpy(bytes.data(), &fingerprint, sizeof fingerprint);
  return bytes;
}

}  // namespace

absl::Status ModelledStage::TakeGradients(std::span<float> sums) {
  const uint64_t gradients = std::exchange(gradients_, 0);
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (size_t i = 0; i < std::min(sums.size(), sizeof gradients); ++i)
    sums[i] = static_cast<float>(gradients >> (8 * i) & 0xff);
  return absl::OkStatus();
}

// As a real one cuts it, but that all take as long (StageActor::PartsOf).
std::vector<StageWork::GradientPart> ModelledStage::PartsOfSum(const RunConfig& config,
                                                               const StageAssignment& stage,
                                                               bool holds_ends) {
  std::vector<int64_t> offsets;
  int64_t size = 0;
  const int32_t layers = stage.last_layer - stage.first_layer;
  for (const int64_t block : StageBlocks(config.model, layers, holds_ends)) {
    offsets.push_back(size);
    size += block;
  }
  const auto layers_at = std::span(offsets).subspan(holds_ends ? 1 : 0, size_t(layers));
  std::vector<GradientPart> parts;
  int64_t end = kGradientValues;
  for (const BackwardPart& part :
       CutBackward(layers_at, size, stage.first_layer, kBackwardPartMin, config.model.ladder)) {
    // A last part of few layers of many has a value, too.
    const int64_t first =
        part.offset > 0 ? std::max<int64_t>(1, kGradientValues * part.offset / size) : 0;
    parts.push_back({first, end - first});
    end = first;
  }
  return parts;
}

// The fingerprint is known from the first part on, and taken from it.
absl::Status ModelledStage::TakePart(size_t part, int64_t step,
                                     std::span<const int32_t> microbatches, std::span<float> sums) {
  if (part == 0) {
    for (const int32_t microbatch : microbatches) Accumulate(step, microbatch);
    given_.resize(static_cast<size_t>(GradientValues()));
    SKERRY_RETURN_IF_ERROR(TakeGradients(given_));
  }
  const GradientPart range = GradientParts()[part];
  std::copy_n(given_.begin() + range.first, sums.size(), sums.begin());
  return absl::OkStatus();
}

absl::Status ModelledStage::OptimizerStepOn(int64_t step, int32_t microbatches,
                                            std::span<const float> sums) {
  if (!std::exchange(sums_, true)) theta_ = stepped_;
  uint64_t gradients = 0;
  for (size_t i = 0; i < std::min(sums.size(), sizeof gradients); ++i)
    gradients += static_cast<uint64_t>(sums[i]) << (8 * i);
  const uint64_t later = std::exchange(gradients_, gradients);
  const absl::Status status = OptimizerStep(step, microbatches);
  gradients_ = later;
  return status;
}

Digest ModelledStage::LiveDigest() {
  const Bytes bytes = BytesOf(theta_);
  return DigestOf(std::span<const uint8_t>(bytes));
}

Digest ModelledStage::BaseDigest() {
  return DigestOf(std::span<const uint8_t>(BytesOf(base_)));
}

// Not hollow: the coordinator collects real bytes, and holds them to the digest.
Payload ModelledStage::BaseParameters() {
  return MakePayload(BytesOf(base_));
}

// Base, outer momentum and two moments of each parameter.
Payload ModelledStage::State(uint64_t base, int64_t at) const {
  Bytes bytes = BytesOf(base);
  const Bytes version = BytesOf(static_cast<uint64_t>(at));
  bytes.insert(bytes.end(), version.begin(), version.end());
  return MakeHollowPayload(std::move(bytes), std::max<int64_t>(4 * 4 * parameters_, 16));
}

absl::StatusOr<Payload> ModelledStage::SaveState() {
  return State(base_, version_);
}

absl::StatusOr<Payload> ModelledStage::SaveLiveState(int64_t version) {
  return State(theta_, version);
}

absl::StatusOr<int64_t> ModelledStage::RestoreState(const Payload& saved) {
  const auto bytes = View(saved);
  if (bytes.size() != 2 * sizeof(uint64_t)) return DataLoss("not the state of a stage");
  std::memcpy(&base_, bytes.data(), sizeof base_);
  std::memcpy(&version_, bytes.data() + sizeof base_, sizeof version_);
  theta_ = stepped_ = base_;
  return version_;
}

// Base and outer momentum in float32, two moments in bf16 (model/joiners_moments.h).
StageWork::JoinersSizes ModelledStage::SizesForJoiners() const {
  return {std::max<int64_t>(2 * 4 * parameters_, 16), 2 * 2 * parameters_};
}

absl::StatusOr<StageWork::JoinersState> ModelledStage::SaveForJoiners() {
  const JoinersSizes sizes = SizesForJoiners();
  const Payload state = State(base_, version_);
  return JoinersState{version_, 0, MakeHollowPayload(*state, sizes.common),
                      MakeHollowPayload({}, sizes.moments)};
}

absl::Status ModelledStage::RestoreJoined(const JoinersChunks& chunks) {
  Bytes state;
  for (const Payload& chunk : chunks.common) {
    const auto bytes = View(chunk);
    state.insert(state.end(), bytes.begin(), bytes.end());
  }
  SKERRY_ASSIGN_OR_RETURN(const int64_t version, RestoreState(MakePayload(std::move(state))));
  return version == chunks.version ? absl::OkStatus() : DataLoss("of another version");
}

absl::StatusOr<Bytes> ModelledStage::Recut(const std::vector<Bytes>& states,
                                           const StageAssignment& stage, int64_t round) {
  uint64_t all = static_cast<uint64_t>(stage.first_layer);
  Bytes made;
  for (const Bytes& state : states) {
    if (state.size() != 2 * sizeof(uint64_t)) return DataLoss("not the state of a stage");
    uint64_t base = 0;
    std::memcpy(&base, state.data(), sizeof base);
    all = all * 0x9e3779b97f4a7c15u + base;
    made = state;
  }
  if (made.empty()) return DataLoss("a checkpoint of no stages");
  std::memcpy(made.data(), &all, sizeof all);
  std::memcpy(made.data() + sizeof all, &round, sizeof round);
  return made;
}

}  // namespace skerry
