#include "model/stage_trainer.h"

#include "model/stage_remake.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "model/initialize.h"
#include "model/ladder_block.h"
#include "model/lr_schedule.h"

namespace skerry {
namespace {

PassShape HeadShape(PassShape shape, bool holds_ends) {
  if (!holds_ends) shape.attention.sequences = 0;
  return shape;
}

}  // namespace

StageTrainer::Scratch::Scratch(const StageTrainer& stage, FloatCarver& carver)
    : stream(
          carver.TakeMatrix(stage.KeepsStream() ? 0 : stage.shape_.tokens(), stage.shape_.hidden)),
      block(stage.shape_, carver),
      head(HeadShape(stage.shape_, stage.holds_ends_),
           stage.holds_ends_ ? std::min(kHeadChunk, stage.shape_.tokens()) : 0, carver) {
  if (stage.recomputed_ > 0) shared = BlockStash::Shared(stage.shape_, carver);
}

StageTrainer::StageTrainer(const RunConfig& config, ParameterLayout layout, Backend* backend)
    : config_(config),
      layout_(std::move(layout)),
      shape_(PassShape::Of(config.model, config.pipeline.sequences_per_microbatch,
                           config.model.context, backend->compute_type())),
      backend_(backend) {}

absl::StatusOr<std::unique_ptr<StageTrainer>> StageTrainer::Create(
    const RunConfig& config, int32_t first_layer, int32_t last_layer, bool holds_ends,
    Backend* backend, int32_t recomputed_layers, const DeviceShare& share) {
  SKERRY_CHECK(recomputed_layers >= 0 &&
               recomputed_layers <= std::max(0, last_layer - first_layer));
  if (first_layer < 0 || last_layer > config.model.layers || first_layer > last_layer ||
      (first_layer == last_layer && !holds_ends)) {
    return InvalidArgument("a stage of layers %d to %d does not exist in a model of %d layers",
                           first_layer, last_layer, config.model.layers);
  }
  const int32_t together = config.model.layers_together();
  if (first_layer % together != 0 || last_layer % together != 0) {
    return InvalidArgument("a stage of layers %d to %d cuts a ladder of %d layers", first_layer,
                           last_layer, together);
  }
  std::unique_ptr<StageTrainer> trainer(new StageTrainer(
      config,
      ParameterLayout::ForStage(config.model, first_layer, last_layer, holds_ends, share.tensors),
      backend));
  trainer->first_layer_ = first_layer;
  trainer->last_layer_ = last_layer;
  trainer->holds_ends_ = holds_ends;
  trainer->recomputed_ = recomputed_layers;
  trainer->parts_ = BackwardParts(trainer->layout_, first_layer, last_layer, share.least_part,
                                  config.model.ladder);
  if (share.is_cut_finely) {
    trainer->parts_ = BackwardCuts(trainer->parts_, trainer->layout_, last_layer, share.least_part,
                                   config.model.ladder);
  }
  if (share.of_sequences > 0) {
    trainer->shape_.mean_tokens = int64_t{share.of_sequences} * config.model.context;
  }
  trainer->shape_ = trainer->shape_.Share(share.tensors);
  trainer->sum_ = share.sum;
  SKERRY_RETURN_IF_ERROR(trainer->AllocateBuffers(share));
  if (share.tensors.devices > 1) return trainer;
  std::vector<float> initial(static_cast<size_t>(trainer->layout_.size()));
  InitializeParameters(config.seed, config.model, trainer->layout_, initial);
  trainer->WriteParameters(initial);
  return trainer;
}

absl::Status StageTrainer::AllocateBuffers(const DeviceShare& share) {
  SKERRY_ASSIGN_OR_RETURN(weights_, WeightStore::Create(layout_.size(), backend_));
  SKERRY_ASSIGN_OR_RETURN(accumulator_, backend_->Allocate(layout_.size()));
  FloatCarver counted(nullptr);
  Scratch(*this, counted);
  SKERRY_ASSIGN_OR_RETURN(workspace_, backend_->Allocate(counted.used()));
  FloatCarver carver(workspace_->data());
  scratch_ = std::make_unique<Scratch>(*this, carver);
  scratch_->block.sum = sum_;
  scratch_->head.sum = sum_;
  SKERRY_ASSIGN_OR_RETURN(optimizer_, StageOptimizer::Create(config_.inner, &layout_, backend_,
                                                             share.steps, share.host));
  FloatCarver stash(nullptr);
  Views(stash);
  // A stage 0 without layers keeps only tokens; its stash is one float.
  SKERRY_ASSIGN_OR_RETURN(
      stashes_, StashPool::Create(backend_, std::max<int64_t>(stash.used(), 1), share.parking));
  gradients_ = std::make_unique<BufferPool>(backend_, layout_.size());
  return absl::OkStatus();
}

StageTrainer::Kept StageTrainer::Views(FloatCarver& carver) const {
  Kept kept;
  for (int32_t layer = first_layer_; layer < last_layer_; ++layer) {
    const bool reads_once = LadderPlace::Of(shape_.ladder, layer).is_first;
    kept.layers.push_back(layer - first_layer_ < recomputed_
                              ? BlockStash::InputOnly(shape_, *scratch_->shared, carver, reads_once)
                              : BlockStash(shape_, carver, reads_once));
  }
  kept.stream =
      KeepsStream() ? carver.TakeMatrix(shape_.tokens(), shape_.hidden) : scratch_->stream;
  return kept;
}

// After StashPool::Take until Keep, after Fetch until Give.
StageTrainer::Kept StageTrainer::KeptOf(const Microbatch& microbatch) const {
  FloatCarver carver(stashes_->data(microbatch.stash));
  return Views(carver);
}

absl::Status StageTrainer::CheckTokens(std::span<const int32_t> tokens) const {
  if (static_cast<int64_t>(tokens.size()) != shape_.tokens()) {
    return InvalidArgument("%d tokens, a microbatch has %d", tokens.size(), shape_.tokens());
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config_.model.vocab) {
      return InvalidArgument("token %d is outside the vocabulary of %d", token,
                             config_.model.vocab);
    }
  }
  return absl::OkStatus();
}

absl::Status StageTrainer::CheckStream(size_t in, size_t out) const {
  const auto want = static_cast<size_t>(shape_.tokens() * shape_.hidden);
  const auto fits = [&](size_t size) { return size == want || (size == 0 && KeepsStream()); };
  if (fits(in) && fits(out)) return absl::OkStatus();
  return InvalidArgument("streams of %d and %d values, a microbatch has %d by %d", in, out,
                         shape_.tokens(), shape_.hidden);
}

absl::Status StageTrainer::CheckForward(MicrobatchKey key) const {
  if (microbatches_.count(key) != 0) {
    return AlreadyExists("step %d microbatch %d is under way; Discard it first", key.step,
                         key.microbatch);
  }
  if (microbatches_.size() >= kMicrobatchesMax) {
    return ResourceExhausted("%d microbatches are under way", kMicrobatchesMax);
  }
  return absl::OkStatus();
}

absl::StatusOr<StageTrainer::Microbatch> StageTrainer::Begin(MicrobatchKey key) {
  SKERRY_RETURN_IF_ERROR(CheckForward(key));
  back_.key.reset();
  Microbatch microbatch;
  SKERRY_ASSIGN_OR_RETURN(microbatch.stash, stashes_->Take());
  return microbatch;
}

absl::Status StageTrainer::Keep(MicrobatchKey key, Microbatch microbatch, const Kept& kept,
                                std::span<float> out) {
  if (!out.empty()) backend_->Download(kept.stream.values, out);
  backend_->Synchronize();
  if (!Summed().ok()) {
    stashes_->Give(microbatch.stash);
    return Summed();
  }
  stashes_->Keep(microbatch.stash);
  microbatches_.emplace(key, std::move(microbatch));
  return absl::OkStatus();
}

// The stream ends in kept.stream; with layers it begins in the first one's stash.
void StageTrainer::RunLayers(const Kept& kept) {
  const std::vector<BlockStash>& stash = kept.layers;
  for (size_t i = 0; i < stash.size(); ++i) {
    const int32_t layer = first_layer_ + static_cast<int32_t>(i);
    const auto weights = BlockWeights::At(layout_, layer, weights_->arena());
    const ConstMatrix before = i == 0 ? ConstMatrix() : ConstMatrix(stash[i - 1].y);
    if (shape_.ladder > 0) {
      LadderForward(*backend_, shape_, weights, stash[i], scratch_->block,
                    LadderPlace::Of(shape_.ladder, layer), before);
    } else {
      BlockForward(*backend_, shape_, weights, stash[i], scratch_->block, before);
    }
  }
  if (!stash.empty()) BlockOutput(*backend_, stash.back(), scratch_->block, kept.stream);
}

void StageTrainer::Refill(const BlockWeights& weights, const BlockStash& stash) {
  const auto refill = shape_.ladder > 0 ? &LadderRefill : &BlockRefill;
  refill(*backend_, shape_, weights, stash, scratch_->block);
}

absl::Status StageTrainer::ForwardFirst(MicrobatchKey key, std::span<const int32_t> tokens,
                                        std::span<float> out) {
  SKERRY_CHECK(holds_ends_, "only stage 0 embeds");
  SKERRY_RETURN_IF_ERROR(CheckTokens(tokens));
  if (sum_ == nullptr) SKERRY_RETURN_IF_ERROR(CheckStream(out.size(), out.size()));
  SKERRY_ASSIGN_OR_RETURN(Microbatch microbatch, Begin(key));
  microbatch.tokens = OwnTokens(shape_, tokens);
  const Kept kept = KeptOf(microbatch);
  const auto ends = EndWeights::At(layout_, weights_->arena());
  const Matrix embedded = kept.layers.empty() ? kept.stream : kept.layers[0].x;
  backend_->EmbeddingForward(microbatch.tokens, ends.embedding, embedded);
  if (sum_ != nullptr) sum_->Add(embedded.values, embedded.size());
  RunLayers(kept);
  return Keep(key, std::move(microbatch), kept, out);
}

absl::Status StageTrainer::Forward(MicrobatchKey key, std::span<const float> in,
                                   std::span<float> out) {
  SKERRY_CHECK(!holds_ends_, "stage 0 begins with tokens");
  if (sum_ == nullptr) SKERRY_RETURN_IF_ERROR(CheckStream(in.size(), out.size()));
  SKERRY_ASSIGN_OR_RETURN(Microbatch microbatch, Begin(key));
  const Kept kept = KeptOf(microbatch);
  backend_->Upload(in, kept.layers[0].x.values);
  RunLayers(kept);
  return Keep(key, std::move(microbatch), kept, out);
}

void StageTrainer::Accumulate(MicrobatchKey key) {
  const auto it = microbatches_.find(key);
  SKERRY_CHECK(it != microbatches_.end() && it->second.has_gradient, "Accumulate after Backward");
  backend_->Add(it->second.gradient->data(), accumulator_->data(), layout_.size());
  Discard(key);
}

void StageTrainer::Discard(MicrobatchKey key) {
  if (back_.key == key) back_.key.reset();
  const auto it = microbatches_.find(key);
  if (it == microbatches_.end()) return;
  stashes_->Give(it->second.stash);
  gradients_->Give(std::move(it->second.gradient));
  microbatches_.erase(it);
}

absl::Status StageTrainer::OptimizerStep(int64_t step, int32_t microbatches) {
  SKERRY_CHECK(microbatches >= 0);
  if (microbatches == 0) return absl::OkStatus();
  const float learning_rate = LearningRate(config_.inner, step, config_.steps);
  return Stepped(
      optimizer_->Step(learning_rate, microbatches, accumulator_->data(), weights_.get()), step);
}

void StageTrainer::TakeGradients(std::span<float> sums) {
  SKERRY_CHECK(std::ssize(sums) == layout_.size());
  backend_->Download(accumulator_->data(), sums);
  backend_->Fill(accumulator_->data(), 0, layout_.size());
  backend_->Synchronize();
}

void StageTrainer::PutGradients(std::span<const float> sums) {
  SKERRY_CHECK(std::ssize(sums) == layout_.size());
  backend_->Upload(sums, accumulator_->data());
}

void StageTrainer::Squares(std::span<double> squares) {
  optimizer_->Squares(accumulator_->data(), squares);
}

absl::Status StageTrainer::StepWith(std::span<const double> squares, int64_t step,
                                    int32_t microbatches) {
  const float learning_rate = LearningRate(config_.inner, step, config_.steps);
  return Stepped(optimizer_->StepWith(squares, learning_rate, microbatches, accumulator_->data(),
                                      weights_.get()),
                 step);
}

absl::Status StageTrainer::Stepped(const absl::Status& status, int64_t step) {
  backend_->Fill(accumulator_->data(), 0, layout_.size());
  backend_->Synchronize();
  return status.ok() ? status : Annotate(status, "inner step " + std::to_string(step));
}

void StageTrainer::RaiseRates(const std::vector<int32_t>& remade) {
  if (remade.empty()) return;
  std::vector<double> rates;
  for (const ParameterBlock& block : layout_.blocks()) {
    double rate = 1;
    for (int32_t layer = first_layer_; layer < last_layer_; ++layer) {
      if (block.name == LayerBlockName(layer)) rate = RateOfRemade(remade, layer);
    }
    rates.push_back(rate);
  }
  optimizer_->SetRates(rates);
}

void StageTrainer::ResetOptimizer() {
  optimizer_->Reset();
}

void StageTrainer::ReadParameters(std::span<float> out) {
  weights_->Read(out);
}

int64_t StageTrainer::HeldBytes() const {
  const int64_t floats = accumulator_->size() + workspace_->size();
  const int64_t alive = std::max<int64_t>(stashes_->allocated(), std::ssize(microbatches_));
  const int64_t tokens = holds_ends_ ? alive * shape_.tokens() : 0;
  return 4 * (floats + tokens) + weights_->HeldBytes() + optimizer_->HeldBytes() +
         stashes_->HeldBytes() + gradients_->HeldBytes();
}

void StageTrainer::Trim() {
  stashes_->Trim();
  gradients_->Trim();
}

void StageTrainer::WriteParameters(std::span<const float> values) {
  weights_->Write(values);
}

std::span<float> StageTrainer::HostParameters() {
  return weights_->Host();
}

void StageTrainer::HostParametersChanged() {
  weights_->HostChanged();
}

}  // namespace skerry
