#include "model/decoder.h"

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "model/buffer_pool.h"
#include "model/head.h"
#include "model/ladder_block.h"
#include "model/transformer_block.h"

namespace skerry {

struct Decoder::Pass {
  PassShape shape;
  Matrix stream;     // [T, d]
  BlockStash stash;  // one serves all layers: nothing goes back
  BlockScratch block;
  HeadScratch head;
  Pass(const PassShape& pass_shape, FloatCarver carver)
      : shape(pass_shape),
        stream(carver.TakeMatrix(pass_shape.tokens(), pass_shape.hidden)),
        stash(pass_shape, carver),
        block(pass_shape, carver),
        head(pass_shape, pass_shape.tokens(), carver),
        floats(carver.used()) {}
  int64_t floats;
};

Decoder::Decoder(const TransformerConfig& config, int64_t tokens_max, Backend* backend)
    : config_(config),
      layout_(ParameterLayout::ForModel(config)),
      tokens_max_(tokens_max),
      backend_(backend),
      left_out_(static_cast<size_t>(config.layers), false) {}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(const TransformerConfig& config,
                                                         std::span<const float> parameters,
                                                         int64_t tokens_max, Backend* backend) {
  SKERRY_CHECK(tokens_max >= 1);
  std::unique_ptr<Decoder> decoder(new Decoder(config, tokens_max, backend));
  if (static_cast<int64_t>(parameters.size()) != decoder->layout_.size()) {
    return InvalidArgument("%d parameters, the model has %d", parameters.size(),
                           decoder->layout_.size());
  }
  SKERRY_ASSIGN_OR_RETURN(decoder->weights_, WeightStore::Create(decoder->layout_.size(), backend));
  decoder->weights_->Write(parameters);
  const Pass largest(PassShape::Of(config, 1, tokens_max, backend->compute_type()),
                     FloatCarver(nullptr));
  SKERRY_ASSIGN_OR_RETURN(decoder->workspace_, backend->Allocate(largest.floats));
  return decoder;
}

absl::Status Decoder::Check(std::span<const int32_t> tokens, int64_t sequences) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (sequences < 1 || count < 1 || count % sequences != 0 || count > tokens_max_) {
    return InvalidArgument("%d tokens in %d sequences; at most %d tokens in equal sequences", count,
                           sequences, tokens_max_);
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config_.vocab) {
      return InvalidArgument("token %d is outside the vocabulary of %d", token, config_.vocab);
    }
  }
  return absl::OkStatus();
}

void Decoder::LeaveOut(std::span<const int32_t> layers) {
  std::fill(left_out_.begin(), left_out_.end(), false);
  for (const int32_t layer : layers) {
    SKERRY_CHECK(layer >= 0 && layer < config_.layers);
    left_out_[static_cast<size_t>(layer)] = true;
  }
  for (size_t layer = 0; layer < left_out_.size(); ++layer) {
    const size_t first = layer - layer % static_cast<size_t>(config_.layers_together());
    SKERRY_CHECK(left_out_[layer] == left_out_[first], "a ladder is left out as a whole");
  }
}

void Decoder::Run(const Pass& pass, std::span<const int32_t> tokens) {
  const auto ends = EndWeights::At(layout_, weights_->arena());
  backend_->EmbeddingForward(tokens, ends.embedding, pass.stream);
  // Attention and MLP of a ladder's first layer have one input; the next layer's is made of it.
  BlockStash first = pass.stash;
  first.x = first.y;
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    if (left_out_[static_cast<size_t>(layer)]) continue;
    const auto weights = BlockWeights::At(layout_, layer, weights_->arena());
    const LadderPlace place = LadderPlace::Of(config_.ladder, layer);
    const BlockStash& stash = place.is_first ? first : pass.stash;
    const bool begins = config_.ladder == 0 || place.is_first;
    if (begins) backend_->Copy(pass.stream.values, stash.x.values, pass.stream.size());
    if (config_.ladder == 0) {
      BlockForward(*backend_, pass.shape, weights, stash, pass.block, {});
    } else {
      LadderForward(*backend_, pass.shape, weights, stash, pass.block, place,
                    begins ? ConstMatrix() : ConstMatrix(stash.y));
    }
    if (config_.ladder == 0 || place.is_last) {
      BlockOutput(*backend_, stash, pass.block, pass.stream);
    }
  }
}

absl::Status Decoder::Logits(std::span<const int32_t> tokens, int64_t sequences,
                             std::span<float> logits) {
  SKERRY_RETURN_IF_ERROR(Check(tokens, sequences));
  const auto count = static_cast<int64_t>(tokens.size());
  const Pass pass(PassShape::Of(config_, sequences, count / sequences, backend_->compute_type()),
                  FloatCarver(workspace_->data()));
  if (static_cast<int64_t>(logits.size()) != pass.head.logits.size()) {
    return InvalidArgument("room for %d logits, want %d", logits.size(), pass.head.logits.size());
  }
  Run(pass, tokens);
  const auto ends = EndWeights::At(layout_, weights_->arena());
  HeadNorm(*backend_, pass.shape, ends, pass.stream, pass.head);
  HeadLogits(*backend_, ends, pass.head, 0, count);
  backend_->Download(pass.head.logits.values, logits);
  backend_->Synchronize();
  return absl::OkStatus();
}

absl::StatusOr<float> Decoder::Loss(std::span<const int32_t> tokens,
                                    std::span<const int32_t> targets, int64_t sequences) {
  SKERRY_RETURN_IF_ERROR(Check(tokens, sequences));
  SKERRY_RETURN_IF_ERROR(Check(targets, sequences));
  if (targets.size() != tokens.size()) {
    return InvalidArgument("%d tokens and %d targets", tokens.size(), targets.size());
  }
  const auto count = static_cast<int64_t>(tokens.size());
  const Pass pass(PassShape::Of(config_, sequences, count / sequences, backend_->compute_type()),
                  FloatCarver(workspace_->data()));
  Run(pass, tokens);
  const auto ends = EndWeights::At(layout_, weights_->arena());
  HeadNorm(*backend_, pass.shape, ends, pass.stream, pass.head);
  HeadLosses(*backend_, pass.shape, ends, targets, pass.head);
  return MeanLoss(*backend_, pass.head, count);
}

absl::Status Decoder::NextLogits(std::span<const int32_t> tokens, std::span<float> logits) {
  SKERRY_RETURN_IF_ERROR(Check(tokens, 1));
  if (static_cast<int64_t>(logits.size()) != config_.vocab) {
    return InvalidArgument("room for %d logits, want %d", logits.size(), config_.vocab);
  }
  // Lengths in steps of kBorder: later tokens do not reach earlier ones, and a backend that
  // prepares itself per shape meets few.
  constexpr int64_t kBorder = 32;
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> padded(tokens.begin(), tokens.end());
  padded.resize(
      static_cast<size_t>(std::min(tokens_max_, (count + kBorder - 1) / kBorder * kBorder)));
  const Pass pass(
      PassShape::Of(config_, 1, static_cast<int64_t>(padded.size()), backend_->compute_type()),
      FloatCarver(workspace_->data()));
  Run(pass, padded);
  const ConstMatrix last{pass.stream.values + (count - 1) * config_.hidden, 1, config_.hidden};
  const auto ends = EndWeights::At(layout_, weights_->arena());
  HeadNorm(*backend_, pass.shape, ends, last, pass.head);
  HeadLogits(*backend_, ends, pass.head, 0, 1);
  backend_->Download(pass.head.logits.values, logits);
  backend_->Synchronize();
  return absl::OkStatus();
}

}  // namespace skerry
