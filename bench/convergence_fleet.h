// The replicas of one run: models cut into stages as a pipeline would hold them, and what their
// outer rounds need.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/convergence_run.h"
#include "kernels/backend.h"
#include "localsgd/outer_fragments.h"
#include "localsgd/piece_reducer.h"
#include "model/stage_trainer.h"

namespace skerry::bench {

// A whole model, layer by layer a stage, so that a microbatch can leave layers out. The parameters
// are in ParameterLayout::ForModel order.
class StackedModel {
 public:
  // One stage of all layers unless `skips`.
  static absl::StatusOr<StackedModel> Create(const RunConfig& config, bool skips, Backend* backend);

  // Forward and backward of a microbatch; `left_out` are indices of stages, ascending, without 0.
  absl::StatusOr<float> Train(MicrobatchKey key, std::span<const int32_t> tokens,
                              std::span<const int32_t> targets, std::span<const int32_t> left_out);
  absl::Status OptimizerStep(int64_t step);
  // Its inner optimizers go on as those of `other`.
  absl::Status TakeMoments(StackedModel& other);
  void Read(std::span<float> parameters);
  void Write(std::span<const float> parameters);
  int32_t stages() const { return static_cast<int32_t>(stages_.size()); }

 private:
  struct Stage {
    std::unique_ptr<StageTrainer> trainer;
    int32_t microbatches = 0;       // accumulated since the last step
    std::vector<float> arena = {};  // for Read and Write
  };
  ParameterLayout layout_;
  std::vector<Stage> stages_;
  std::vector<float> stream_, gradient_;  // [T, d]
};

// Of the parameters in that order.
std::vector<int64_t> BlocksOf(const TransformerConfig& model);

// Replicas, each a StackedModel with its outer rounds.
class Fleet {
 public:
  static absl::StatusOr<std::unique_ptr<Fleet>> Create(const RunConfig& config,
                                                       const Training& training,
                                                       const OuterLaw& law, uint64_t seed);

  // Step `step` of every replica, then what is due after it.
  absl::Status Step(int64_t step, const TokenDataset& data);
  absl::Status Finish(int64_t steps_done);

  // As a run that goes back to the checkpoint of the version that has just landed: all replicas
  // begin with its base, the outer momentum and the first one's moments, nothing else. Returns
  // Outcome::dropped_rounds. No message is under way.
  absl::StatusOr<double> GoBack();
  void NoteBase();  // a round before that

  std::vector<float> Base();  // ForModel order
  Backend* backend() { return backend_.get(); }
  int64_t bytes() const { return bytes_; }
  int64_t messages() const { return messages_; }

 private:
  struct Replica {
    StackedModel model;
    OuterFragments rounds;
  };
  // What is on its way of one fragment: at most two rounds, in co2.
  struct Flight {
    int64_t round = 0;
    std::vector<Payload> messages;             // by replica
    std::vector<std::vector<Payload>> pieces;  // of a sharded round, [replica][piece]
  };

  Fleet(const RunConfig& config, const Training& training, const OuterLaw& law, uint64_t seed);
  void MakeReducers();
  absl::Status TrainAll(int64_t step, const TokenDataset& data);
  std::vector<int32_t> LeftOut(int64_t step, int32_t replica) const;
  absl::Status Carry(std::span<const OuterAction> actions, int64_t steps_done, bool last);
  absl::Status EncodeAll(const OuterAction& action);
  absl::Status ApplyAll(const OuterAction& action, bool complete);
  absl::Status SumAll(const OuterAction& action, const Flight& flight,
                      const std::vector<bool>& present);
  std::vector<bool> Present(const OuterAction& action, bool complete) const;

  // What no round has taken yet of what replicas learnt, mean, and what reducers have left over.
  std::vector<float> NotSent();

  RunConfig config_;
  Training training_;
  OuterLaw law_;  // of shaped parameters
  OuterSchedule schedule_;
  uint64_t seed_;
  std::unique_ptr<Backend> backend_;
  std::vector<Replica> replicas_;
  std::vector<std::vector<float>> theta_;              // [replica][n], valid within Carry
  std::vector<std::vector<Flight>> flights_;           // [fragment]
  std::vector<PieceReducer> reducers_;                 // [fragment], of sharded rounds
  std::vector<std::vector<int64_t>> rounds_accepted_;  // [fragment][replica] covered so far
  std::vector<float> base_before_;  // of a run that will go back: a round earlier
  int64_t bytes_ = 0, messages_ = 0;
};

}  // namespace skerry::bench
