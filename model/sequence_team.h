// The devices of a node as one replica of a stage, every microbatch's sequences shared out over
// them (docs/decisions/0049-devices.md says why sequences and not microbatches); each accumulates
// the gradient of its own. The inner optimizer is sharded (ZeRO-1, docs/decisions/
// 0052-sharded-optimizer.md): the sums are reduce-scattered (kernels/group), each device keeps the
// moments of its part and steps that, and the weights are all-gathered, so that all hold the same
// ones. That moves what an all-reduce would.
//
// The sums are always made of runs of whole layers (BackwardCuts), one after the other, by threads
// and on GPUs streams of their own (kernels/group/sums_beside.h): so they have the same bits at the
// end of a step and beside its last backward pass (SumPart). There each begins when all devices
// have made its gradients, and nothing but the optimizer waits for it.
//
// With one device it is a StageTrainer and nothing else: no thread, no copy, the same bits. With
// several, bits depend on the devices' kinds, number and order, not on timing; from one device's
// they differ by the rounding of sums over tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/group/device_group.h"
#include "kernels/group/device_threads.h"
#include "kernels/group/sums_beside.h"
#include "model/stage_team.h"
#include "model/stage_trainer.h"

namespace skerry {

// How many of a microbatch's sequences each device has: so that the slowest is done as early as can
// be, the first devices more where it makes no difference. Those that would have none are not used.
std::vector<int32_t> ShareSequences(int32_t sequences, std::span<const double> rates);

// The parts of a stage's parameters that each of so many devices steps: equal ones, or with Muon,
// which needs whole matrices, such as end between tensors, as equal as that allows.
std::vector<GroupPart> OptimizerParts(const InnerConfig& inner, const ParameterLayout& layout,
                                      int32_t devices);

class SequenceTeam final : public StageTeam {
 public:
  // Which has an end for each of so many backends; tests have others than MakeGroupBeside.
  using Groups = std::function<absl::StatusOr<GroupBeside>(std::span<Backend* const>)>;
  static absl::StatusOr<std::unique_ptr<StageTeam>> Create(const RunConfig& config,
                                                           const TeamStage& stage,
                                                           std::span<const TeamDevice> devices,
                                                           const Groups& groups = {});

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
  bool SumsParts() const override { return !IsAlone(); }
  void SumPart(size_t part, std::span<const MicrobatchKey> keys) override;
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
  const ParameterLayout& layout() const override { return first().layout(); }
  absl::Status CheckEqual() override;

  int64_t HeldBytes() const override;
  void Trim() override;

  int32_t devices() const override { return static_cast<int32_t>(members_.size()); }
  std::string group_name() const override;

 private:
  struct Member {
    Backend* backend = nullptr;
    std::unique_ptr<StageTrainer> trainer;
    std::unique_ptr<Group> group;         // nullptr of one that is alone
    int64_t first_token = 0, tokens = 0;  // of a microbatch
    GroupPart part;                       // of the parameters: what it steps
    std::vector<double> squares;          // of its part's gradients, by block
  };
  SequenceTeam() = default;
  StageTrainer& first() const { return *members_.front().trainer; }
  bool IsAlone() const { return members_.size() == 1; }
  void CutParts(const RunConfig& config, const TeamStage& stage);
  size_t FirstCut(size_t part) const { return part == 0 ? 0 : cut_ends_[part - 1]; }
  void BeginSum(size_t cut);
  absl::Status EndSums();
  absl::Status ReduceGradients(const Member& member, const GroupPart& range) const;
  absl::Status GatherWeights(const Member& member) const;
  absl::Status CheckLengths(size_t tokens, size_t stream) const;
  absl::Status CheckBackwardLengths(std::span<const float> d_out,
                                    std::span<const float> d_in) const;
  template <typename Take>
  void TakeFromAll(std::span<float> sums, const Take& take);
  // A member's rows of a stream [T, d], or nothing of nothing.
  template <typename T>
  std::span<T> Rows(const Member& member, std::span<T> stream) const;

  int64_t tokens_ = 0, hidden_ = 0;
  bool has_moments_ = false;
  bool is_cut_evenly_ = false;   // parts are those of PartOf
  std::vector<double> squares_;  // of all parts
  std::span<float> host_;        // what HostParameters gave out
  std::vector<BackwardPart> parts_;
  std::vector<size_t> cut_ends_;  // of each part: which of the trainers' parts is behind it
  // Of the open step: sums that were begun, and of which microbatches beside what is accumulated.
  size_t summed_cuts_ = 0;
  std::vector<MicrobatchKey> summed_;
  std::vector<MicrobatchKey> later_;               // accumulated since then: the next step's
  std::vector<std::unique_ptr<Backend>> streams_;  // of GPUs' sums
  std::vector<Member> members_;
  std::unique_ptr<DeviceThreads> threads_;  // these end before the members do
  std::unique_ptr<SumsBeside> sums_;
};

}  // namespace skerry
