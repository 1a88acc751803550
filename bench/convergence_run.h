// One training run of the convergence benchmark: R replicas of a small transformer in one process,
// with the production trainer, outer rounds and codecs, on real text.
//
// At step s replica r reads microbatch (s, r) of the run's seed, so all contenders of a seed and R
// see the same tokens in the same order. Losses are of the base (what a run exports), over the same
// validation windows, in nat per byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run_config.h"
#include "localsgd/outer_law.h"
#include "model/token_dataset.h"

namespace skerry::bench {

struct ConvergenceSize {
  std::string name;  // "tiny", "demo", "10m"
  TransformerConfig model;
  int32_t sequences = 1;  // of a microbatch; one microbatch per replica and step
  int64_t steps = 0;
  int64_t validation_windows = 0;
  InnerOptimizer optimizer = InnerOptimizer::kAdamW;
};

// NotFound: another name.
absl::StatusOr<ConvergenceSize> ConvergenceSizeOf(const std::string& name);

// What differs between contenders, besides the rates that are tuned.
struct Training {
  int32_t replicas = 4;
  bool gradient_mean = false;  // synchronous data parallelism proper: one model, R microbatches
  OuterMode mode = OuterMode::kSynchronous;
  int64_t tau = 1, delta = 0;
  int32_t fragments = 4;  // of kStreaming
  DeltaCodec codec = DeltaCodec::kNone;
  double bits = 1;  // a parameter and message, of kLowRank
  ResidualPlace residual = ResidualPlace::kBuffer;
  bool sharded = false;    // each replica sums a part; the sums travel as the deltas do
  double missing = 0;      // share of the replicas whose message misses the round
  double skip = 0;         // share of the stages after the first that a microbatch leaves out
  bool goes_back = false;  // to a checkpoint of the version at half of the steps, at that version
};

struct Rates {
  float inner = 2e-3f;              // peak learning rate of AdamW
  float beta2 = 0.95f;              // of AdamW: how long it remembers squared gradients
  float alpha = 0.7f, beta = 0.6f;  // of the outer step
};

struct Outcome {
  double loss = 0;       // +inf: diverged
  double half_loss = 0;  // every other layer after the first left out; mean of both halves
  double bits = 0;       // sent up by a replica, per parameter and round
  int64_t rounds = 0;
  // What a run that went back had not sent yet, as its mean over the replicas with what reducers
  // had left over: its norm in units of what the base moves in a round then.
  double dropped_rounds = 0;
};

// Blocks; any number of threads may train at once, each with a core of its own.
absl::StatusOr<Outcome> TrainReplicas(const ConvergenceSize& size, const Training& training,
                                      const Rates& rates, uint64_t seed, const TokenDataset& data);

}  // namespace skerry::bench
