// The devices of a node as one replica of a stage whose tensors do not fit on one of them: each
// holds and steps a part of every matrix (model/tensor_split.h) and computes it for all sequences
// of every microbatch.
//
// What is summed among them (kernels/group, float32), of a microbatch and layer, T·d values each:
// both branches forward, both gradients behind a norm backward, and of a recomputed layer the
// attention's branch again; on stage 0 also the embedded stream and the gradient behind the final
// norm, and of every token three values of each device's logits are sent (model/head.h). The
// optimizer sends nothing but squares for clipping. docs/decisions/0069-tensor-split.md has the
// price.
//
// In a ladder (model/ladder_block.h) they run on a thread of their own while the device computes:
// the same sums, of the same bits.
//
// The same bits from run to run; from one device's they differ by the rounding of sums over heads,
// ffn and the vocabulary. What all hold, the norms, gets the same gradient, and so stays the same
// on all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/group/device_group.h"
#include "kernels/group/device_threads.h"
#include "kernels/group/sum_thread.h"
#include "model/branch_sum.h"
#include "model/stage_team.h"
#include "model/stage_trainer.h"
#include "model/tensor_split.h"

namespace skerry {

class TensorTeam final : public StageTeam {
 public:
  // Of two devices or more. InvalidArgument: the model or the optimizer
  // cannot be split so (CheckTensorSplit), or devices compute other bits than each other.
  static absl::StatusOr<std::unique_ptr<StageTeam>> Create(const RunConfig& config,
                                                           const TeamStage& stage,
                                                           std::span<const TeamDevice> devices);

  absl::Status ForwardFirst(MicrobatchKey key, std::span<const int32_t> tokens,
                            std::span<float> out) override;
  absl::Status Forward(MicrobatchKey key, std::span<const float> in, std::span<float> out) override;
  absl::StatusOr<float> Loss(MicrobatchKey key, std::span<const float> in,
                             std::span<const int32_t> targets, std::span<float> d_in) override;
  absl::Status Backward(MicrobatchKey key, std::span<const float> d_out,
                        std::span<float> d_in) override;
  absl::Status BackwardPartOf(MicrobatchKey key, size_t part, std::span<const float> d_out,
                              std::span<float> d_in) override;
  const std::vector<BackwardPart>& parts() const override { return parts_; }
  bool KeepsStream() const override { return first().KeepsStream(); }
  void Accumulate(MicrobatchKey key) override;
  void Discard(MicrobatchKey key) override;
  absl::Status OptimizerStep(int64_t step, int32_t microbatches) override;

  void TakeGradients(std::span<float> sums) override;
  void TakePart(size_t part, std::span<const MicrobatchKey> keys, std::span<float> sums) override;
  absl::Status OptimizerStepOn(std::span<const float> sums, int64_t step,
                               int32_t microbatches) override;

  void RaiseRates(const std::vector<int32_t>& remade) override;
  int64_t optimizer_steps() const override { return first().optimizer().steps(); }
  int64_t moments() const override { return has_moments_ ? layout().size() : 0; }
  void ReadMoments(std::span<float> first_moment, std::span<float> second_moment) const override;
  absl::Status WriteMoments(int64_t steps, std::span<const float> first_moment,
                            std::span<const float> second_moment) override;

  void ReadParameters(std::span<float> out) override;
  void WriteParameters(std::span<const float> values) override;
  std::span<float> HostParameters() override;
  void HostParametersChanged() override;
  const ParameterLayout& layout() const override { return split_.whole(); }
  absl::Status CheckEqual() override;

  int64_t HeldBytes() const override;
  void Trim() override;

  int32_t devices() const override { return static_cast<int32_t>(members_.size()); }
  std::string group_name() const override { return members_.front().group->name(); }

 private:
  struct Member {
    Backend* backend = nullptr;
    std::unique_ptr<Group> group;
    std::unique_ptr<SumThread> beside;  // in a ladder
    std::unique_ptr<BranchSum> sum;
    std::unique_ptr<StageTrainer> trainer;
    std::vector<double> squares;  // of its gradients, by block
  };
  explicit TensorTeam(TensorSplit split) : split_(std::move(split)) {}
  StageTrainer& first() const { return *members_.front().trainer; }
  // work(i) on every device. Who fails tells the others, who wait for it; the error is the one that
  // began it.
  template <typename Work>
  absl::Status Together(const Work& work) const;
  absl::Status MakeGroup(const RunConfig& config, std::span<const TeamDevice> devices);
  void PutGradients(std::span<const float> sums);

  TensorSplit split_;
  bool holds_ends_ = false, has_moments_ = false;
  std::vector<BackwardPart> parts_;  // one: of the whole stage's arrays no device has a run
  std::vector<double> squares_;      // of all devices
  std::vector<float> host_;          // the parameters, as HostParameters gives them out
  std::vector<std::unique_ptr<Backend>> streams_;  // of sums beside GPUs
  std::vector<Member> members_;
  std::unique_ptr<DeviceThreads> threads_;  // ends before the members do
};

}  // namespace skerry
