// The way back of a microbatch: its loss, its backward pass, whole or in parts, and its gradients.

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "model/ladder_block.h"
#include "model/stage_trainer.h"

namespace skerry {
namespace {

absl::Status WrongOrder(MicrobatchKey key, const char* call, const char* why) {
  return FailedPrecondition("%s of step %d microbatch %d: %s", call, key.step, key.microbatch, why);
}

}  // namespace

absl::StatusOr<float> StageTrainer::Loss(MicrobatchKey key, std::span<const float> in,
                                         std::span<const int32_t> targets, std::span<float> d_in) {
  SKERRY_RETURN_IF_ERROR(CheckLoss(key, targets));
  if (sum_ == nullptr) SKERRY_RETURN_IF_ERROR(CheckStream(in.size(), d_in.size()));
  Microbatch& microbatch = microbatches_.find(key)->second;
  if (KeepsStream()) SKERRY_RETURN_IF_ERROR(stashes_->Fetch(microbatch.stash));
  const Matrix x = KeepsStream() ? KeptOf(microbatch).stream : scratch_->stream;
  SKERRY_ASSIGN_OR_RETURN(microbatch.gradient, gradients_->Take());
  const auto weights = EndWeights::At(layout_, weights_->arena());
  const auto gradients = EndGradients::At(layout_, microbatch.gradient->data());
  back_.key.reset();
  // The block scratch is idle here and lends the memory of d_in.
  const Matrix d_x = scratch_->block.branch;
  if (!in.empty()) backend_->Upload(in, x.values);
  HeadForwardBackward(*backend_, shape_, weights, OwnTokens(shape_, targets), config_.inner.z_loss,
                      x, scratch_->head, gradients, d_x);
  if (KeepsStream()) backend_->Copy(d_x.values, x.values, x.size());
  if (!d_in.empty()) backend_->Download(d_x.values, d_in);
  backend_->Synchronize();
  if (!Summed().ok()) {
    gradients_->Give(std::move(microbatch.gradient));
    return Summed();
  }
  microbatch.has_loss = true;
  return MeanLoss(*backend_, scratch_->head, shape_.tokens());
}

absl::Status StageTrainer::CheckLoss(MicrobatchKey key, std::span<const int32_t> targets) const {
  SKERRY_CHECK(holds_ends_, "only stage 0 has the head");
  SKERRY_RETURN_IF_ERROR(CheckTokens(targets));
  const auto it = microbatches_.find(key);
  if (it == microbatches_.end()) return WrongOrder(key, "loss", "it is not under way here");
  if (it->second.has_loss) return WrongOrder(key, "loss", "it has one");
  return absl::OkStatus();
}

absl::Status StageTrainer::CheckBackward(MicrobatchKey key) const {
  const auto it = microbatches_.find(key);
  if (it == microbatches_.end()) return WrongOrder(key, "backward", "it is not under way here");
  const Microbatch& microbatch = it->second;
  if (microbatch.has_gradient) return WrongOrder(key, "backward", "its gradient is here");
  if (holds_ends_ && !microbatch.has_loss) return WrongOrder(key, "backward", "it has no loss yet");
  return absl::OkStatus();
}

absl::Status StageTrainer::Backward(MicrobatchKey key, std::span<const float> d_out,
                                    std::span<float> d_in) {
  for (size_t part = 0; part < parts_.size(); ++part)
    SKERRY_RETURN_IF_ERROR(BackwardPartOf(key, part, d_out, d_in));
  return absl::OkStatus();
}

absl::Status StageTrainer::BackwardPartOf(MicrobatchKey key, size_t part,
                                          std::span<const float> d_out, std::span<float> d_in) {
  if (part == 0) {
    SKERRY_RETURN_IF_ERROR(BeginBackwardOf(key, d_out, d_in));
  } else if (back_.key != key || back_.next != part) {
    return WrongOrder(key, "backward", "another pass came between its parts");
  }
  Microbatch& microbatch = microbatches_.find(key)->second;
  RunLayersBack(microbatch, part == 0 ? last_layer_ : parts_[part - 1].down_to,
                parts_[part].down_to);
  back_ = {key, part + 1};
  if (part + 1 < parts_.size()) return absl::OkStatus();
  back_.key.reset();
  return EndBackwardOf(microbatch, d_in);
}

absl::Status StageTrainer::BeginBackwardOf(MicrobatchKey key, std::span<const float> d_out,
                                           std::span<float> d_in) {
  if (sum_ == nullptr) {
    SKERRY_RETURN_IF_ERROR(CheckStream(d_out.size(), holds_ends_ ? d_out.size() : d_in.size()));
  }
  if (holds_ends_ && !d_in.empty()) return InvalidArgument("nothing lies before the embedding");
  SKERRY_RETURN_IF_ERROR(CheckBackward(key));
  Microbatch& microbatch = microbatches_.find(key)->second;
  if (microbatch.gradient == nullptr) {
    SKERRY_ASSIGN_OR_RETURN(microbatch.gradient, gradients_->Take());
  }
  SKERRY_RETURN_IF_ERROR(stashes_->Fetch(microbatch.stash));
  const Matrix stream = KeptOf(microbatch).stream;
  if (!d_out.empty()) backend_->Upload(d_out, stream.values);
  BeginBackward(*backend_, scratch_->block, stream);
  return absl::OkStatus();
}

void StageTrainer::RunLayersBack(const Microbatch& microbatch, int32_t from, int32_t down_to) {
  const Kept views = KeptOf(microbatch);
  LadderBackward ladder(*backend_, shape_, scratch_->block, views.stream);
  for (int32_t layer = from - 1; layer >= down_to; --layer) {
    const auto weights = BlockWeights::At(layout_, layer, weights_->arena());
    const auto gradients = BlockGradients::At(layout_, layer, microbatch.gradient->data());
    const BlockStash& kept = views.layers[static_cast<size_t>(layer - first_layer_)];
    if (layer - first_layer_ < recomputed_) Refill(weights, kept);
    if (shape_.ladder > 0) {
      ladder.Layer(LadderPlace::Of(shape_.ladder, layer), weights, kept, gradients);
    } else {
      BlockBackward(*backend_, shape_, weights, kept, scratch_->block, gradients, views.stream);
    }
  }
}

absl::Status StageTrainer::EndBackwardOf(Microbatch& microbatch, std::span<float> d_in) {
  const Matrix stream = KeptOf(microbatch).stream;
  if (holds_ends_) {
    EmbeddingGradient(*backend_, microbatch.tokens, stream,
                      EndGradients::At(layout_, microbatch.gradient->data()));
  } else if (!d_in.empty()) {
    backend_->Download(stream.values, d_in);
  }
  backend_->Synchronize();
  SKERRY_RETURN_IF_ERROR(Summed());
  stashes_->Give(std::exchange(microbatch.stash, 0));
  microbatch.has_gradient = true;
  return absl::OkStatus();
}

void StageTrainer::AccumulatePart(size_t part, std::span<const MicrobatchKey> keys) {
  const BackwardPart& range = parts_[part];
  float* const sum = accumulator_->data() + range.offset;
  for (const MicrobatchKey key : keys) {
    const auto it = microbatches_.find(key);
    const bool is_final = it != microbatches_.end() &&
                          (it->second.has_gradient || (back_.key == key && back_.next > part));
    SKERRY_CHECK(is_final, "a part's gradients before the backward pass is there");
    backend_->Add(it->second.gradient->data() + range.offset, sum, range.size);
  }
  if (part + 1 < parts_.size()) return;
  for (const MicrobatchKey key : keys) Discard(key);
}

void StageTrainer::TakePart(size_t part, std::span<const MicrobatchKey> keys,
                            std::span<float> sums) {
  const BackwardPart& range = parts_[part];
  SKERRY_CHECK(std::ssize(sums) == range.size);
  AccumulatePart(part, keys);
  float* const sum = accumulator_->data() + range.offset;
  backend_->Download(sum, sums);
  backend_->Fill(sum, 0, range.size);
  backend_->Synchronize();
}

}  // namespace skerry
