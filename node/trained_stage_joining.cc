// What a stage gives to joiners, and takes from others (docs/decisions/0031-joining.md).

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/status.h"
#include "model/joiners_moments.h"
#include "node/trained_stage.h"
#include "wire/message/state_message.h"

namespace skerry {
namespace {

static_assert(MomentsBytes(kMomentsBlock) == kStateChunkBytes, "a chunk is a block of moments");

int64_t BytesOf(const std::vector<Payload>& chunks) {
  int64_t bytes = 0;
  for (const Payload& chunk : chunks) bytes += static_cast<int64_t>(View(chunk).size());
  return bytes;
}

// The bytes that are there, one after another.
void Join(const std::vector<Payload>& chunks, std::span<uint8_t> out) {
  size_t at = 0;
  for (const Payload& chunk : chunks) {
    const auto bytes = View(chunk);
    std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
    at += bytes.size();
  }
}

template <typename T>
std::span<uint8_t> BytesOf(std::vector<T>& values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

StageWork::JoinersSizes TrainedStage::SizesForJoiners() const {
  return {2 * 4 * parameters(), MomentsBytes(trainer_->moments())};
}

absl::StatusOr<StageWork::JoinersState> TrainedStage::SaveForJoiners() {
  JoinersState state;
  state.version = fragments_->version();
  state.inner_steps = trainer_->optimizer_steps();
  Bytes moments;
  {
    std::vector<float> first(static_cast<size_t>(trainer_->moments())), second(first.size());
    trainer_->ReadMoments(first, second);
    moments = EncodeMoments(first, second);
    NoteHeld(static_cast<int64_t>(8 * first.size() + moments.size()));
  }
  const auto n = static_cast<size_t>(parameters());
  Bytes common(2 * n * sizeof(float));
  const std::span<float> values(reinterpret_cast<float*>(common.data()), 2 * n);
  fragments_->ReadBase(values.first(n));
  fragments_->ReadMomentum(values.last(n));
  NoteHeld(static_cast<int64_t>(moments.size() + common.size()));
  state.common = MakePayload(std::move(common));
  state.moments = MakePayload(std::move(moments));
  return state;
}

absl::Status TrainedStage::CheckMoments(int64_t chunk, std::span<const uint8_t> bytes) const {
  return CheckMomentsBlock(config_.inner, trainer_->layout(), chunk * kMomentsBlock, bytes);
}

absl::Status TrainedStage::RestoreJoined(const JoinersChunks& chunks) {
  const auto wanted = SizesForJoiners();
  if (BytesOf(chunks.common) != wanted.common || BytesOf(chunks.moments) != wanted.moments ||
      chunks.version < 0) {
    return DataLoss("state of a stage: %d and %d bytes, not %d and %d", BytesOf(chunks.common),
                    BytesOf(chunks.moments), wanted.common, wanted.moments);
  }
  const auto n = static_cast<size_t>(parameters());
  std::vector<float> common(2 * n);
  Join(chunks.common, BytesOf(common));
  if (!std::all_of(common.begin(), common.end(), [](float x) { return std::isfinite(x); })) {
    return DataLoss("state of a stage: a value is not finite");
  }
  {
    Bytes moments(static_cast<size_t>(wanted.moments));
    Join(chunks.moments, moments);
    std::vector<float> first(moments.size() / 4), second(first.size());
    DecodeMoments(moments, first, second);
    NoteHeld(wanted.common + 2 * wanted.moments + static_cast<int64_t>(8 * (n + first.size())));
    const absl::Status written = trainer_->WriteMoments(chunks.inner_steps, first, second);
    if (!written.ok()) return DataLoss("state of a stage: of another inner optimizer");
  }
  const std::span<const float> values(common);
  TakeBase(chunks.version, values.first(n), values.last(n));
  return absl::OkStatus();
}

void TrainedStage::TakeBase(int64_t version, std::span<const float> base,
                            std::span<const float> momentum) {
  trainer_->WriteParameters(base);
  fragments_.reset();  // never two of them
  fragments_ = std::make_unique<OuterFragments>(
      OuterFragments::At(law_, BlockSizes(), version, base, momentum, sharded_over_));
  std::fill(digests_.begin(), digests_.end(), std::nullopt);
}

}  // namespace skerry
