// The end of a step on devices that share sequences: their gradients summed, beside the last
// backward pass or after it, and the optimizer's step; or given away to other nodes.

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device_mark.h"
#include "model/sequence_team.h"

namespace skerry {

void SequenceTeam::SumPart(size_t part, std::span<const MicrobatchKey> keys) {
  if (IsAlone()) return StageTeam::SumPart(part, keys);
  summed_.assign(keys.begin(), keys.end());
  while (summed_cuts_ < cut_ends_[part]) BeginSum(summed_cuts_);
}

// On the devices nothing waits for it.
void SequenceTeam::BeginSum(size_t cut) {
  const auto marks = std::make_shared<std::vector<DeviceMark>>(members_.size());
  threads_->DoAll([&](size_t i) {
    members_[i].trainer->AccumulatePart(cut, summed_);
    (*marks)[i] = DeviceMark(*members_[i].backend);
  });
  const BackwardPart& range = first().parts()[cut];
  sums_->Begin(
      [marks](size_t i) {
        (*marks)[i].Await();
        return absl::OkStatus();
      },
      [this, range = GroupPart{range.offset, range.size}](size_t i) {
        return ReduceGradients(members_[i], range);
      });
  ++summed_cuts_;
}

// All of them, where none was begun before.
absl::Status SequenceTeam::EndSums() {
  const size_t cuts = first().parts().size();
  SKERRY_CHECK(summed_cuts_ == 0 || summed_cuts_ == cuts, "a step ends with half of its sums");
  while (summed_cuts_ < cuts) BeginSum(summed_cuts_);
  summed_cuts_ = 0;
  summed_.clear();
  return sums_->EndAll();
}

absl::Status SequenceTeam::OptimizerStep(int64_t step, int32_t microbatches) {
  if (IsAlone()) return first().OptimizerStep(step, microbatches);
  if (microbatches == 0) return absl::OkStatus();
  SKERRY_RETURN_IF_ERROR(EndSums());
  SKERRY_RETURN_IF_ERROR(threads_->RunAll([&](size_t i) {
    members_[i].trainer->Squares(members_[i].squares);
    return absl::OkStatus();
  }));
  std::fill(squares_.begin(), squares_.end(), 0);
  for (const Member& member : members_) {
    for (size_t b = 0; b < squares_.size(); ++b) squares_[b] += member.squares[b];
  }
  // Where a gradient is not finite all devices see it, and none waits for weights.
  const absl::Status stepped = threads_->RunAll([&](size_t i) -> absl::Status {
    const Member& member = members_[i];
    SKERRY_RETURN_IF_ERROR(member.trainer->StepWith(squares_, step, microbatches));
    SKERRY_RETURN_IF_ERROR(GatherWeights(member));
    member.trainer->WeightsChanged();
    return absl::OkStatus();
  });
  for (const MicrobatchKey key : std::exchange(later_, {})) Accumulate(key);
  return stepped;
}

void SequenceTeam::TakeGradients(std::span<float> sums) {
  TakeFromAll(sums,
              [](StageTrainer& trainer, std::span<float> into) { trainer.TakeGradients(into); });
}

void SequenceTeam::TakePart(size_t part, std::span<const MicrobatchKey> keys,
                            std::span<float> sums) {
  const int64_t offset = parts_[part].offset;
  TakeFromAll(sums, [&](StageTrainer& trainer, std::span<float> into) {
    for (size_t cut = FirstCut(part); cut < cut_ends_[part]; ++cut) {
      const BackwardPart& range = trainer.parts()[cut];
      trainer.TakePart(cut, keys,
                       into.subspan(static_cast<size_t>(range.offset - offset),
                                    static_cast<size_t>(range.size)));
    }
  });
}

template <typename Take>
void SequenceTeam::TakeFromAll(std::span<float> sums, const Take& take) {
  take(first(), sums);
  if (IsAlone()) return;
  std::vector<float> more(sums.size());
  for (size_t i = 1; i < members_.size(); ++i) {
    take(*members_[i].trainer, more);
    for (size_t k = 0; k < more.size(); ++k) sums[k] += more[k];
  }
}

absl::Status SequenceTeam::OptimizerStepOn(std::span<const float> sums, int64_t step,
                                           int32_t microbatches) {
  if (microbatches == 0) return absl::OkStatus();
  std::vector<float> later(sums.size());
  TakeGradients(later);
  first().PutGradients(sums);
  const absl::Status status = OptimizerStep(step, microbatches);
  first().PutGradients(later);
  return status;
}

// The member's part of the sums, or with Muon, whose parts are others, all of them.
absl::Status SequenceTeam::ReduceGradients(const Member& member, const GroupPart& range) const {
  float* const sums = member.trainer->gradient_sum();
  const int64_t n = layout().size();
  SKERRY_RETURN_IF_ERROR(member.group->ReduceScatterOf(sums, n, range));
  for (int32_t p = 0; p < devices() && !is_cut_evenly_; ++p) {
    const GroupPart made = Common(PartOf(n, devices(), p), range);
    if (made.size == 0) continue;
    SKERRY_RETURN_IF_ERROR(member.group->Broadcast(sums + made.first, made.size, p));
  }
  return absl::OkStatus();
}

absl::Status SequenceTeam::GatherWeights(const Member& member) const {
  float* const weights = member.trainer->weights();
  if (is_cut_evenly_) return member.group->AllGather(weights, layout().size());
  for (size_t p = 0; p < members_.size(); ++p) {
    const GroupPart& part = members_[p].part;
    if (part.size == 0) continue;
    SKERRY_RETURN_IF_ERROR(
        member.group->Broadcast(weights + part.first, part.size, static_cast<int32_t>(p)));
  }
  return absl::OkStatus();
}

}  // namespace skerry
