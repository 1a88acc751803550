// A stage in training on one or several devices, which together are one replica of it. Bodies say
// what the devices share out: the sequences of every microbatch (model/sequence_team.h), or where a
// layer or the ends do not fit on one of them the tensors (model/tensor_team.h).
//
// Calls, lives and errors are those of StageTrainer. Where one device fails the call fails, and
// after an operation among them the team is of no more use. T, d: of a whole microbatch; arrays of
// parameters, gradients and moments are the whole stage's, whichever device has what.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_split.h"
#include "model/parameter_layout.h"
#include "model/stage_trainer.h"

namespace skerry {

struct TeamDevice {
  Backend* backend = nullptr;
  double rate = 1;            // > 0, as of the others: devices of one kind have one rate
  Backend* host = nullptr;    // which has its moments and makes its steps (model/host_optimizer.h)
  StashParking parking = {};  // of its stashes
};

struct TeamStage {
  int32_t first_layer = 0, last_layer = 0;
  bool holds_ends = false;
  int32_t recomputed_layers = 0;
  DeviceSplit split = DeviceSplit::kSequences;
  int64_t least_part = kBackwardPartMin;  // values (BackwardParts)
};

// Used by one thread at a time; the backends outlive it, and nobody else uses them.
class StageTeam {
 public:
  // The body for stage.split; where there is one device, that of sequences.
  static absl::StatusOr<std::unique_ptr<StageTeam>> Create(const RunConfig& config,
                                                           const TeamStage& stage,
                                                           std::span<const TeamDevice> devices);
  virtual ~StageTeam() = default;

  virtual absl::Status ForwardFirst(MicrobatchKey key, std::span<const int32_t> tokens,
                                    std::span<float> out) = 0;
  virtual absl::Status Forward(MicrobatchKey key, std::span<const float> in,
                               std::span<float> out) = 0;
  virtual absl::StatusOr<float> Loss(MicrobatchKey key, std::span<const float> in,
                                     std::span<const int32_t> targets, std::span<float> d_in) = 0;
  virtual absl::Status Backward(MicrobatchKey key, std::span<const float> d_out,
                                std::span<float> d_in) = 0;
  virtual absl::Status BackwardPartOf(MicrobatchKey key, size_t part, std::span<const float> d_out,
                                      std::span<float> d_in) = 0;
  virtual const std::vector<BackwardPart>& parts() const = 0;
  virtual void Accumulate(MicrobatchKey key) = 0;
  virtual void Discard(MicrobatchKey key) = 0;
  // The stage is the whole model: spans [T, d] may be empty (StageTrainer).
  virtual bool KeepsStream() const = 0;
  // Whether its devices sum what they accumulated at the end of a step. Then they may begin with a
  // part once a backward pass in parts has made it: with what Accumulate of these would add of it,
  // one of which is that pass. Of each part once, in their order; the last one ends the
  // microbatches, and OptimizerStep the sums, which have the bits of those that it makes itself.
  virtual bool SumsParts() const { return false; }
  virtual void SumPart(size_t part, std::span<const MicrobatchKey> keys);
  // Also Aborted, DeadlineExceeded: a device died or stopped before it had given its gradients, or
  // the weights that it stepped.
  virtual absl::Status OptimizerStep(int64_t step, int32_t microbatches) = 0;

  // Of a replica that is several nodes (pipeline/exec/cohort.h). Takes what was accumulated since
  // the last step out of all devices, [layout().size()], added in their order; from then on they
  // accumulate for the next one, and the step on such a sum leaves that alone.
  virtual void TakeGradients(std::span<float> sums) = 0;
  virtual void TakePart(size_t part, std::span<const MicrobatchKey> keys,
                        std::span<float> sums) = 0;
  virtual absl::Status OptimizerStepOn(std::span<const float> sums, int64_t step,
                                       int32_t microbatches) = 0;

  virtual void RaiseRates(const std::vector<int32_t>& remade) = 0;
  // The inner optimizer's state, as of one device (StageOptimizer).
  virtual int64_t optimizer_steps() const = 0;
  virtual int64_t moments() const = 0;
  virtual void ReadMoments(std::span<float> first_moment, std::span<float> second_moment) const = 0;
  virtual absl::Status WriteMoments(int64_t steps, std::span<const float> first_moment,
                                    std::span<const float> second_moment) = 0;

  virtual void ReadParameters(std::span<float> out) = 0;
  virtual void WriteParameters(std::span<const float> values) = 0;
  // In host memory, to read and to change; what is changed there, HostParametersChanged tells the
  // devices.
  virtual std::span<float> HostParameters() = 0;
  virtual void HostParametersChanged() = 0;
  virtual const ParameterLayout& layout() const = 0;
  // DataLoss, naming the device: what it holds of what all hold is not, bit for bit, the first's.
  virtual absl::Status CheckEqual() = 0;

  virtual int64_t HeldBytes() const = 0;  // of all devices
  virtual void Trim() = 0;

  virtual int32_t devices() const = 0;         // in use
  virtual std::string group_name() const = 0;  // "" for one device
};

}  // namespace skerry
