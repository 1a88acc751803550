#include "sim/modelled_stage.h"

#include <algorithm>
#include <cstring>

#include "common/digest.h"
#include "common/rng.h"
#include "common/status.h"
#include "routing/cost_model.h"

namespace skerry {
namespace {

// Bytes touched per parameter, read and written, by float32 AdamW (gradient, two moments, weight),
// by encoding (base, weight, residual, message) and by a round (message, base, momentum, weight).
constexpr double kOptimizerBytes = 28;
constexpr double kEncodeBytes = 17;
constexpr double kApplyBytes = 26;
constexpr double kAccumulateBytes = 12;

uint64_t Chain(uint64_t a, uint64_t b) {
  return Mix64(a ^ Mix64(b + 0x9e3779b97f4a7c15ull));
}

Bytes BytesOf(uint64_t fingerprint) {
  Bytes bytes(sizeof fingerprint);
  std::memcpy(bytes.data(), &fingerprint, sizeof fingerprint);
  return bytes;
}

uint64_t FingerprintOf(const Payload& payload) {
  uint64_t fingerprint = 0;
  const auto bytes = View(payload);
  std::memcpy(&fingerprint, bytes.data(), std::min(bytes.size(), sizeof fingerprint));
  return fingerprint;
}

}  // namespace

ModelledStage::ModelledStage(const RunConfig& config, const StageAssignment& stage, bool holds_ends,
                             std::shared_ptr<const ModelledDevice> device)
    : device_(std::move(device)) {
  const int32_t layers = stage.last_layer - stage.first_layer;
  forward_flops_ = layers * LayerForwardFlops(config);
  loss_flops_ = LossFlops(config);
  parameters_ = StageParameters(config.model, layers, holds_ends);
  boundary_bytes_ = BoundaryBytes(config);
  delta_bytes_ = DeltaBytes(config, layers, holds_ends);
  tokens_ = static_cast<int32_t>(MicrobatchTokens(config));
  base_ = theta_ = Chain(config.seed, static_cast<uint64_t>(stage.first_layer));
}

Duration ModelledStage::Cost(WorkKind kind) const {
  const auto compute = [&](double flops) {
    return Duration::Seconds(ComputeSeconds(flops, device_->gflops));
  };
  const auto memory = [&](double bytes_each) {
    return Duration::Seconds(bytes_each * static_cast<double>(parameters_) /
                             device_->memory_bytes_per_s);
  };
  switch (kind) {
    case WorkKind::kForward:
      return compute(forward_flops_);
    case WorkKind::kLoss:
      return compute(loss_flops_);
    case WorkKind::kBackward:
      return compute(kBackwardPerForward * forward_flops_);
    case WorkKind::kAccumulate:
      return memory(kAccumulateBytes);
    case WorkKind::kOptimizer:
      return memory(kOptimizerBytes);
    case WorkKind::kEncode:
      return memory(kEncodeBytes);
    case WorkKind::kApply:
      return memory(kApplyBytes);
  }
  return Duration();
}

WorkResult ModelledStage::Boundary(uint64_t fingerprint) const {
  WorkResult result;
  result.tokens = tokens_;
  result.values = MakeHollowPayload(BytesOf(fingerprint), boundary_bytes_);
  return result;
}

WorkResult ModelledStage::ForwardFirst(int64_t step, int32_t microbatch) {
  return Boundary(Chain(static_cast<uint64_t>(step), static_cast<uint64_t>(microbatch)));
}

WorkResult ModelledStage::Forward(int64_t, int32_t, const Payload& in) {
  return Boundary(FingerprintOf(in));
}

WorkResult ModelledStage::Loss(int64_t, int32_t, const Payload& in) {
  return Boundary(FingerprintOf(in));
}

WorkResult ModelledStage::Backward(int64_t, int32_t, const Payload& d_out) {
  return Boundary(FingerprintOf(d_out));
}

void ModelledStage::Accumulate(int64_t step, int32_t microbatch) {
  theta_ = Chain(theta_, Chain(static_cast<uint64_t>(step), static_cast<uint64_t>(microbatch)));
}

absl::Status ModelledStage::OptimizerStep(int64_t step, int32_t microbatches) {
  theta_ = Chain(theta_, static_cast<uint64_t>(step) << 32 | static_cast<uint32_t>(microbatches));
  return absl::OkStatus();
}

absl::StatusOr<Payload> ModelledStage::EncodeDelta() {
  return MakeHollowPayload(BytesOf(Chain(base_, theta_)), delta_bytes_);
}

absl::Status ModelledStage::ApplyRound(const std::vector<Accepted>& participants) {
  for (const Accepted& p : participants) SKERRY_RETURN_IF_ERROR(CheckDelta(p.payload));
  uint64_t sum = 0;  // the mean does not depend on an order
  for (const Accepted& p : participants) sum += Chain(FingerprintOf(p.payload), uint64_t(p.tokens));
  base_ = Chain(base_, sum);
  theta_ = Chain(theta_, base_);
  ++version_;
  return absl::OkStatus();
}

// The fingerprint of no value stands for a payload that no codec would make.
absl::Status ModelledStage::CheckDelta(const Payload& delta) const {
  if (SizeOf(delta) != delta_bytes_ || FingerprintOf(delta) == ~uint64_t{0}) {
    return InvalidArgument("delta: not a message of this stage");
  }
  return absl::OkStatus();
}

Digest ModelledStage::BaseDigest() {
  return DigestOf(std::span<const uint8_t>(BytesOf(base_)));
}

// Base, outer momentum and two moments of each parameter.
absl::StatusOr<Payload> ModelledStage::SaveState() {
  Bytes bytes = BytesOf(base_);
  const Bytes version = BytesOf(static_cast<uint64_t>(version_));
  bytes.insert(bytes.end(), version.begin(), version.end());
  return MakeHollowPayload(std::move(bytes), std::max<int64_t>(4 * 4 * parameters_, 16));
}

absl::StatusOr<int64_t> ModelledStage::RestoreState(const Payload& saved) {
  const auto bytes = View(saved);
  if (bytes.size() != 2 * sizeof(uint64_t)) return DataLoss("not the state of a stage");
  std::memcpy(&base_, bytes.data(), sizeof base_);
  std::memcpy(&version_, bytes.data() + sizeof base_, sizeof version_);
  theta_ = base_;
  return version_;
}

// Not hollow: the coordinator collects real bytes, and holds them to the digest.
Payload ModelledStage::BaseParameters() {
  return MakePayload(BytesOf(base_));
}

}  // namespace skerry
