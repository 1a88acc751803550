// The arithmetic of a stage as the pipeline sees it: bytes in, bytes out. Real bodies train
// (node/trained_stage), modelled bodies only have sizes and costs, so that a simulator can run
// thousands of nodes.
//
// Every method but Cost, HeldBytesPeak and CheckDelta runs on the device thread, in order of
// submission. Payloads
// are float32 [sequences, context, hidden].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/instant.h"

namespace skerry {

enum class WorkKind : uint8_t {
  kForward,
  kLoss,
  kBackward,
  kAccumulate,
  kOptimizer,
  kEncode,
  kApply
};

struct WorkResult {
  absl::Status status;
  Payload values;  // activation or gradient to send on
  float loss = 0;  // of Loss: mean over `tokens`, nat
  int32_t tokens = 0;
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  virtual int64_t boundary_bytes() const = 0;  // size of every activation and gradient payload
  virtual int32_t microbatch_tokens() const = 0;
  virtual Duration Cost(WorkKind kind) const = 0;  // what a simulator charges; any thread
  // The most memory it has held, payloads of others left out; 0: not known. Any thread.
  virtual int64_t HeldBytesPeak() const { return 0; }

  virtual WorkResult ForwardFirst(int64_t step,
                                  int32_t microbatch) = 0;  // stage 0: reads its own tokens
  virtual WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) = 0;
  virtual WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) = 0;
  virtual WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) = 0;

  // Adds the microbatch's gradient to the step's; called in microbatch order.
  virtual void Accumulate(int64_t step, int32_t microbatch) = 0;
  // Forgets what is kept for a microbatch, if anything.
  virtual void Discard(int64_t step, int32_t microbatch) = 0;
  // The inner step on the mean over `microbatches` accumulated ones.
  virtual absl::Status OptimizerStep(int64_t step, int32_t microbatches) = 0;

  // Outer rounds (localsgd/replica.h).
  struct Accepted {
    int64_t tokens = 0;
    Payload payload;
    bool own = false;
  };
  virtual absl::StatusOr<Payload> EncodeDelta() = 0;
  virtual absl::Status ApplyRound(const std::vector<Accepted>& participants) = 0;
  // Whether another replica's delta can be decoded; ApplyRound fails on one that cannot. Any
  // thread.
  virtual absl::Status CheckDelta(const Payload& delta) const = 0;
  // A stage with a single replica has nobody to average with: the base is the live parameters.
  virtual void AdoptBase() = 0;
  virtual Digest BaseDigest() = 0;
  // The base parameters as float32 bytes, in ParameterLayout order.
  virtual Payload BaseParameters() = 0;

  // A joiner is given what the replicas of its stage have in common, base and outer momentum, and
  // the donor's inner optimizer; neither its residual nor its live parameters.
  virtual absl::StatusOr<Payload> SaveState() = 0;
  // Takes that over, with the base as live parameters; returns the base's version. DataLoss:
  // damaged, or not of this stage; then nothing has changed.
  virtual absl::StatusOr<int64_t> RestoreState(const Payload& saved) = 0;
  // The live parameters are the base again: the next inner step is `step`, the next delta that of
  // `round`.
  virtual void StartFromBase(int64_t step, int64_t round) = 0;
};

}  // namespace skerry
