#include "bench/stage_exercise.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bench/counted_heap.h"
#include "common/rng.h"
#include "common/status.h"
#include "kernels/backend.h"
#include "model/weight_store.h"
#include "node/trained_stage.h"
#include "pipeline/plan/node_memory.h"

namespace skerry {
namespace {

class MadeUpText final : public TokenSource {
 public:
  explicit MadeUpText(int32_t vocab) : vocab_(static_cast<uint64_t>(vocab)) {}
  absl::Status Read(int64_t step, int32_t microbatch, std::span<int32_t> tokens,
                    std::span<int32_t> targets) override {
    Rng rng(7, "text", static_cast<uint64_t>(step * 1000 + microbatch));
    for (int32_t& token : tokens) token = static_cast<int32_t>(rng.Below(vocab_));
    for (int32_t& target : targets) target = static_cast<int32_t>(rng.Below(vocab_));
    return absl::OkStatus();
  }

 private:
  uint64_t vocab_;
};

Payload Boundary(const StageWork& work, uint64_t seed) {
  Bytes bytes(static_cast<size_t>(work.boundary_bytes()));
  Rng rng(7, "boundary", seed);
  for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    const auto value = static_cast<float>(1e-2 * (rng.Uniform() - 0.5));
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
  return MakePayload(std::move(bytes));
}

Payload CopyOf(const Payload& payload) {
  return MakePayload(Bytes(View(payload).begin(), View(payload).end()));
}

// One step of a caller that gets every microbatch before the first one's turn. Payloads live as
// long as a node keeps them: what comes in until the device has read it, what goes out until the
// peer has it.
class Step {
 public:
  Step(StageWork& work, const StageCase& shape, const StageHolds& holds, int64_t step)
      : work_(work), ends_(shape.holds_ends), whole_(shape.IsWhole()), holds_(holds), step_(step) {}

  absl::Status Run() {
    SKERRY_RETURN_IF_ERROR(HoldAll());
    SKERRY_RETURN_IF_ERROR(GoBack());
    for (int32_t m = 0; m < holds_.gradients; ++m) work_.Accumulate(step_, m);
    for (int32_t m = holds_.gradients; m < holds_.microbatches; ++m) work_.Discard(step_, m);
    return work_.OptimizerStep(step_, holds_.gradients);
  }

 private:
  absl::Status HoldAll() {
    for (int32_t m = 0; m < holds_.microbatches; ++m) {
      const Payload in = whole_ ? Payload() : Boundary(work_, static_cast<uint64_t>(m));
      WorkResult result = ends_ ? work_.ForwardFirst(step_, m) : work_.Forward(step_, m, in);
      SKERRY_RETURN_IF_ERROR(result.status);
      out_.push_back(std::move(result.values));
      in_.push_back(in);
    }
    return absl::OkStatus();
  }
  absl::Status GoBack() {
    for (int32_t m = holds_.gradients - 1; m >= 0; --m) {
      if (ends_) SKERRY_RETURN_IF_ERROR(work_.Loss(step_, m, in_.front()).status);
      SKERRY_RETURN_IF_ERROR(work_.Backward(step_, m, in_.front()).status);
    }
    return absl::OkStatus();
  }

  StageWork& work_;
  bool ends_, whole_;
  StageHolds holds_;
  int64_t step_;
  std::vector<Payload> in_, out_;
};

absl::StatusOr<std::vector<StageWork::Accepted>> EncodeRound(StageWork& work, int32_t replicas,
                                                             int64_t tokens) {
  std::vector<StageWork::Accepted> participants;
  SKERRY_ASSIGN_OR_RETURN(const Payload own, work.EncodeDelta(0));
  participants.push_back({tokens, own, true});
  for (int32_t r = 1; r < replicas; ++r) participants.push_back({tokens, CopyOf(own), false});
  return participants;
}

// Returns the bytes of the round's deltas.
absl::StatusOr<int64_t> Exercise(StageWork& work, const StageCase& shape, const StageHolds& holds) {
  const int64_t tokens = work.microbatch_tokens();
  const bool rounds = shape.replicas > 1;
  std::vector<StageWork::Accepted> participants;
  SKERRY_RETURN_IF_ERROR(Step(work, shape, holds, 0).Run());
  if (rounds) {
    SKERRY_ASSIGN_OR_RETURN(participants, EncodeRound(work, shape.replicas, tokens));
  }
  SKERRY_RETURN_IF_ERROR(Step(work, shape, holds, 1).Run());
  if (rounds) SKERRY_RETURN_IF_ERROR(work.ApplyRound(0, participants));
  int64_t bytes = 0;
  for (const StageWork::Accepted& delta : participants) bytes += SizeOf(delta.payload);
  return bytes;
}

}  // namespace

StageCase SmallCase(int32_t hidden, int32_t layers, bool holds_ends) {
  StageCase shape;
  TransformerConfig& model = shape.config.model;
  model.hidden = hidden;
  model.heads = hidden / 32;
  model.kv_heads = hidden / 64;
  model.ffn = 3 * hidden;
  model.layers = layers + 1;
  shape.config.pipeline.sequences_per_microbatch = 1;
  shape.config.pipeline.in_flight = 2;
  shape.layers = layers;
  shape.holds_ends = holds_ends;
  shape.first_replicas = 2;
  shape.replicas = 2;
  return shape;
}

absl::StatusOr<HeldBytes> MeasureStage(const StageCase& shape) {
  StageHolds holds = HoldsOf(shape.config, shape.first_replicas, shape.replicas, shape.holds_ends);
  if (shape.offers_plenty) {
    holds.gradients = GradientsMax(shape.config, shape.replicas, shape.holds_ends);
  }
  holds.recomputed = shape.recomputed;
  holds.offloads = shape.offloads;
  holds.parked = shape.parked;
  holds.on_disk = shape.device && !shape.spill.empty();
  const int32_t first = shape.holds_ends ? 0 : shape.config.model.layers - shape.layers;
  const StageAssignment stage{first, first + shape.layers, {}};
  const int64_t before = HeapBytes();
  ResetHeapPeak();
  std::vector<TrainedStage::Device> devices(static_cast<size_t>(shape.devices));
  const DType compute = ComputeTypeOf(shape.config.inner);
  for (TrainedStage::Device& device : devices) {
    device.backend = shape.device ? shape.device(compute) : CreateCpuBackend(1, compute);
    if (shape.offloads) device.host = CreateCpuBackend(1);
    const int32_t residents = StashesOf(shape.config, shape.holds_ends, holds) - shape.parked;
    if (shape.parked > 0) device.parking = {residents, shape.parked, shape.spill, holds.on_disk};
  }
  SKERRY_ASSIGN_OR_RETURN(
      const std::unique_ptr<StageWork> work,
      TrainedStage::Create(shape.config, stage, shape.holds_ends, std::move(devices),
                           std::make_unique<MadeUpText>(shape.config.model.vocab), shape.recomputed,
                           shape.split));
  SKERRY_ASSIGN_OR_RETURN(const int64_t delta_bytes, Exercise(*work, shape, holds));
  HeldBytes bytes;
  bytes.heap = HeapBytesPeak() - before;
  const int64_t payloads = shape.IsWhole() ? 0 : holds.microbatches * work->boundary_bytes();
  bytes.stage = work->HeldBytesPeak() + payloads + delta_bytes;
  const int64_t host = shape.device ? 1 : 0;
  MemoryOffer offer = {0, host, shape.devices};
  offer.split = shape.split;
  bytes.memory = MemoryIn(shape.config, shape.layers, shape.holds_ends, holds, offer);
  bytes.model = bytes.memory.total();
  return bytes;
}

}  // namespace skerry
