// A stage that is one replica together with those of other nodes (pipeline/exec/cohort.h): its
// gradients are given away, whole or in parts, and the optimizer steps on the sum of all.

#include <utility>

#include "common/status.h"
#include "node/trained_stage.h"

namespace skerry {
namespace {

std::vector<MicrobatchKey> KeysOf(int64_t step, std::span<const int32_t> microbatches) {
  std::vector<MicrobatchKey> keys;
  for (const int32_t microbatch : microbatches) keys.push_back({step, microbatch});
  return keys;
}

}  // namespace

absl::Status TrainedStage::TakeGradients(std::span<float> sums) {
  trainer_->TakeGradients(sums);
  return absl::OkStatus();
}

absl::Status TrainedStage::OptimizerStepOn(int64_t step, int32_t microbatches,
                                           std::span<const float> sums) {
  SKERRY_RETURN_IF_ERROR(trainer_->OptimizerStepOn(sums, step, microbatches));
  const bool ends_round = (step + 1) % config_.outer.inner_steps == 0;
  return ends_round ? trainer_->CheckEqual() : absl::OkStatus();
}

Digest TrainedStage::LiveDigest() {
  return DigestOf(std::span<const float>(trainer_->HostParameters()));
}

std::vector<StageWork::GradientPart> TrainedStage::GradientParts() const {
  std::vector<GradientPart> parts;
  for (const BackwardPart& part : trainer_->parts()) parts.push_back({part.offset, part.size});
  return parts;
}

absl::Status TrainedStage::TakePart(size_t part, int64_t step,
                                    std::span<const int32_t> microbatches, std::span<float> sums) {
  trainer_->TakePart(part, KeysOf(step, microbatches), sums);
  return absl::OkStatus();
}

void TrainedStage::SumPart(size_t part, int64_t step, std::span<const int32_t> microbatches) {
  trainer_->SumPart(part, KeysOf(step, microbatches));
}

}  // namespace skerry
