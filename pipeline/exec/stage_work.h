// The arithmetic of a stage as the pipeline sees it: bytes in, bytes out. Real bodies train
// (node/trained_stage), modelled bodies only have sizes and costs, so that a simulator can run
// thousands of nodes.
//
// Every method but Cost, HeldBytesPeak, those that check and those about sizes runs on the device
// thread, in order of submission. Payloads are float32 [sequences, context, hidden]; on slow links
// they travel encoded (RunPass). Of a stage that is the whole model they are empty: the stream
// stays on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/run_config.h"
#include "common/status.h"
#include "pipeline/exec/pieces.h"
#include "wire/message/message.h"

namespace skerry {

enum class WorkKind : uint8_t {
  kForward,
  kLoss,
  kBackward,
  kAccumulate,
  kOptimizer,
  kEncode,
  kApply,
  kReduce
};

struct WorkResult {
  absl::Status status;
  Payload values;  // activation or gradient to send on
  float loss = 0;  // of Loss: mean over `tokens`, nat
  int32_t tokens = 0;
  DeltaCodec codec = DeltaCodec::kNone;  // what `values` is encoded as
  bool is_refused = false;               // what came in is no such message: nothing was computed
  // log₂ of the root mean square of what came in and of `values`; nullopt: not known (RunPass).
  std::optional<float> log2_came = {}, log2_made = {};
};

class StageWork {
 public:
  virtual ~StageWork() = default;

  virtual int64_t boundary_bytes() const = 0;  // size of every activation and gradient payload
  // The exact size of one on a slow link. CHECK: int8 or bf16.
  int64_t EncodedBoundaryBytes(DeltaCodec codec) const;
  virtual int32_t microbatch_tokens() const = 0;
  virtual Duration Cost(WorkKind kind) const = 0;  // what a simulator charges; any thread
  // The most memory it has held, payloads of others left out; 0: not known. Any thread.
  virtual int64_t HeldBytesPeak() const { return 0; }

  virtual WorkResult ForwardFirst(int64_t step,
                                  int32_t microbatch) = 0;  // stage 0: reads its own tokens
  virtual WorkResult Forward(int64_t step, int32_t microbatch, const Payload& in) = 0;
  virtual WorkResult Loss(int64_t step, int32_t microbatch, const Payload& in) = 0;
  virtual WorkResult Backward(int64_t step, int32_t microbatch, const Payload& d_out) = 0;

  // A payload for a slow link and back (compression/boundary_code.h); of a hollow one only the size
  // changes. InvalidArgument: a value is not finite, no such message.
  virtual absl::StatusOr<Payload> EncodeBoundary(DeltaCodec codec, const Payload& values) const;
  virtual absl::StatusOr<Payload> DecodeBoundary(DeltaCodec codec, const Payload& encoded) const;

  // How large a payload of float32 is (Log2Rms); nullopt: of a hollow one nobody knows.
  virtual std::optional<float> SizeOfValues(const Payload& values) const;

  // What this stage makes of a microbatch of another replica, and forgets; its own are left alone.
  struct Recomputed {
    Payload out, d_in;
  };
  virtual absl::StatusOr<Recomputed> Recompute(const Payload& /*in*/, const Payload& /*d_out*/) {
    return FailedPrecondition("this stage computes nothing again");
  }

  // Adds the microbatch's gradient to the step's; called in microbatch order.
  virtual void Accumulate(int64_t step, int32_t microbatch) = 0;
  // Forgets what is kept for a microbatch, if anything.
  virtual void Discard(int64_t step, int32_t microbatch) = 0;
  // The inner step on the mean over `microbatches` accumulated ones.
  virtual absl::Status OptimizerStep(int64_t step, int32_t microbatches) = 0;

  // Of a replica that is several nodes (cohort.h): how many values a sum of gradients is, and,
  // where a simulation's are fewer, how many they stand for. Any thread.
  virtual int64_t GradientValues() const { return 0; }
  virtual int64_t GradientValuesStoodFor() const { return GradientValues(); }
  // Takes out the sum of what was accumulated, [GradientValues()]: what is from then on is the next
  // step's, which OptimizerStepOn, the inner step on the sum of all members, leaves alone.
  virtual absl::Status TakeGradients(std::span<float>) {
    return FailedPrecondition("this stage does not give its gradients away");
  }
  virtual absl::Status OptimizerStepOn(int64_t, int32_t, std::span<const float>) {
    return FailedPrecondition("this stage does not step on the gradients of others");
  }
  // A backward pass in parts, so that the first gradients are on their way while it runs: which of
  // the values each part makes final. They share out all; the same at all replicas. Any thread.
  struct GradientPart {
    int64_t first = 0, size = 0;
  };
  virtual std::vector<GradientPart> GradientParts() const { return {{0, GradientValues()}}; }
  // Backward, up to where that part is final. One after the other, no other pass in between; only
  // the last has a result to send.
  virtual WorkResult RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                                     size_t /*part*/) {
    return Backward(step, microbatch, d_out);
  }
  // What TakeGradients would give of that part were these accumulated too, in their order. Of each
  // part once; the last one ends the microbatches.
  virtual absl::Status TakePart(size_t /*part*/, int64_t step,
                                std::span<const int32_t> microbatches, std::span<float> sums) {
    for (const int32_t microbatch : microbatches) Accumulate(step, microbatch);
    return TakeGradients(sums);
  }
  // A stage whose own devices sum: whether they may begin with such parts, of a step whose sum is
  // not given away; and that a part is there, with which they do (model/stage_team.h).
  virtual bool SumsParts() const { return false; }  // any thread
  virtual void SumPart(size_t /*part*/, int64_t /*step*/, std::span<const int32_t>) {}
  // Of the live parameters: equal at all members between two steps.
  virtual Digest LiveDigest() { return {}; }

  // Outer rounds (localsgd/replica.h), by their number: when each is due, and which part of the
  // stage it concerns, says common/round_clock.h.
  struct Accepted {
    int64_t tokens = 0;
    Payload payload;
    bool own = false;
    NodeId sender = {};
    int32_t rounds = 1;  // that it covers: RoundsCovered
  };
  virtual absl::StatusOr<Payload> EncodeDelta(int64_t round) = 0;
  virtual absl::Status ApplyRound(int64_t round, const std::vector<Accepted>& participants) = 0;
  // Whether another replica's delta can be decoded; ApplyRound fails on one that cannot. Any
  // thread.
  virtual absl::Status CheckDelta(int64_t round, const Payload& delta) const = 0;
  // A codec for each tensor (localsgd/table_choice.h): what each would take and lose of the delta
  // that is encoded next; and the table, packed, that messages of rounds from `first_round` on are
  // of. SetTable: any thread, before such a message is made or checked. InvalidArgument: it is not
  // a table of this stage.
  virtual absl::StatusOr<DeltaStatistics> MeasureDelta() {
    return FailedPrecondition("this stage does not measure its deltas");
  }
  virtual absl::Status SetTable(int64_t first_round, const Bytes& table) = 0;
  // Sharded rounds (localsgd/piece_reducer.h). The pieces that what a round concerns is cut into;
  // 0: its rounds are not sharded.
  virtual int32_t pieces(int64_t) const { return 0; }
  // The own delta, [pieces(round)].
  virtual absl::StatusOr<std::vector<Payload>> EncodePieces(int64_t) { return NotSharded(); }
  // What this replica sums: some pieces, ascending, each as every participant sent it.
  struct Reduction {
    int64_t round = 0;
    std::vector<int32_t> pieces;
    std::vector<std::vector<Accepted>> messages;  // [pieces][participants]
  };
  // The sums, one for each of its pieces; into `states`, unless it is nullptr, what is left over of
  // each before and after. Changes nothing.
  virtual absl::StatusOr<std::vector<Payload>> ReducePieces(const Reduction&,
                                                            std::vector<PieceState>*) const {
    return NotSharded();
  }
  // Of the drawn pieces what was left over before a sum that has not landed. FailedPrecondition: it
  // is gone.
  virtual absl::StatusOr<std::vector<Payload>> LeftOverBefore(const SumCheck&) const {
    return NotSharded();
  }
  // Whether what another shows (SumShown) makes its sum, `own` being the pieces that it sums.
  virtual SumVerdict CheckShown(const SumCheck&, const std::vector<int32_t>& /*own*/,
                                const Payload& /*shown*/) const {
    return SumVerdict::kNotShown;
  }
  // Lands the round: the sums of all pieces, and what this replica had summed itself.
  struct Landing {
    int64_t round = 0;
    std::vector<Payload> sums;  // [pieces(round)]
    bool own_accepted = false;
    Reduction own;
  };
  virtual absl::Status ApplySums(const Landing&) { return NotSharded(); }
  // The reducer's part of a landing, of a replica that leaves and lands nothing any more.
  virtual absl::Status LandPart(const Landing&) { return NotSharded(); }
  // What a reducer has left over (localsgd/piece_reducer.h) of the pieces of that round that are
  // not in `own`, ascending, as messages for who sums them now; it counts as handed on. `own` is
  // empty: this replica leaves. Returns nothing when there is nothing.
  virtual std::vector<Piece> HandOn(int64_t, const std::vector<int32_t>&) { return {}; }
  // What another handed on; it goes down with a later sum. Check: any thread.
  virtual absl::Status CheckLeftOvers(int64_t, const std::vector<Piece>&) const {
    return NotSharded();
  }
  virtual absl::Status TakeOver(int64_t, const std::vector<Piece>&) { return NotSharded(); }
  // Of the round that landed last: whose delta a robust mode gave little or no weight to
  // (localsgd/robust.h), ordered. In a sharded round: in more than half of what this replica
  // summed.
  virtual std::vector<NodeId> Screened() const { return {}; }
  // Whether what a replica sent can be decoded: pieces of its delta, or sums. Any thread.
  virtual absl::Status CheckPieces(int64_t, const std::vector<Piece>&) const {
    return NotSharded();
  }
  virtual absl::Status CheckSums(int64_t, const std::vector<Piece>&) const { return NotSharded(); }

  // A stage with a single replica has nobody to average with: the base is the live parameters.
  virtual void AdoptBase() = 0;
  virtual Digest BaseDigest() = 0;
  // The base parameters as float32 bytes, in ParameterLayout order.
  virtual Payload BaseParameters() = 0;

  // What a joiner is given (docs/decisions/0031-joining.md), by several replicas at once, in chunks
  // of kStateChunkBytes. `common` has the same bits at every replica of a version: base and outer
  // momentum. `moments` are this replica's own estimates of what its inner optimizer keeps;
  // joiners take each chunk from any replica. Neither its residual nor its live parameters.
  struct JoinersState {
    int64_t version = 0;
    int64_t inner_steps = 0;  // that the moments are of
    Payload common, moments;
  };
  struct JoinersSizes {
    int64_t common = 0, moments = 0;
  };
  virtual JoinersSizes SizesForJoiners() const { return {}; }  // any thread
  virtual absl::StatusOr<JoinersState> SaveForJoiners() {
    return FailedPrecondition("this stage gives nothing to joiners");
  }
  // Whether a chunk of moments can be one: any thread. DataLoss: no optimizer makes such.
  virtual absl::Status CheckMoments(int64_t, std::span<const uint8_t>) const {
    return absl::OkStatus();
  }
  // Takes it over, with the base as live parameters. DataLoss: not of this stage; then nothing has
  // changed.
  struct JoinersChunks {
    int64_t version = 0;
    int64_t inner_steps = 0;
    std::vector<Payload> common, moments;
  };
  virtual absl::Status RestoreJoined(const JoinersChunks&) {
    return FailedPrecondition("this stage takes nothing from others");
  }

  // What a checkpoint keeps: what the replicas of a stage have in common, base and outer momentum,
  // and this one's inner optimizer; neither its residual nor its live parameters.
  virtual absl::StatusOr<Payload> SaveState() = 0;
  // The same of a stage without rounds: the live parameters stand for the base of that version.
  virtual absl::StatusOr<Payload> SaveLiveState(int64_t) {
    return FailedPrecondition("this stage does not save its live parameters");
  }
  // Takes that over, with the base as live parameters; returns the base's version. DataLoss:
  // damaged, or not of this stage; then nothing has changed.
  virtual absl::StatusOr<int64_t> RestoreState(const Payload& saved) = 0;
  // The live parameters are the base again: the next inner step is `step`, the next delta that of
  // `round`. If that is the base's own version, no message is under way anywhere: all replicas
  // begin there.
  virtual void StartFromBase(int64_t step, int64_t round) = 0;

 protected:
  static absl::Status NotSharded() {
    return FailedPrecondition("the rounds of this stage are not sharded");
  }
};

// A part of a step's gradients that is there to be taken (StageWork::TakePart).
struct GradientsMade {
  int64_t step = 0;
  size_t part = 0;
  int32_t accumulated = 0;            // microbatches in the sum
  std::vector<int32_t> microbatches;  // of those what is not accumulated yet
};

struct PassInput {
  Payload values;
  DeltaCodec codec = DeltaCodec::kNone;  // what `values` is encoded as
};

// Whether it has the size of a boundary tensor that travels as its codec says.
bool IsBoundary(const StageWork& work, const PassInput& input);

// One pass over a microbatch, all of it on the device thread: decodes its input, computes, encodes
// what goes over a slow link, and measures both. What came and is not finite, or beyond
// 2^kBoundaryLog2Max, is refused: nobody's numbers may void another's. If then what was computed is
// not finite, it is this stage that has diverged: FailedPrecondition.
WorkResult RunPass(const StageWork& work, const PassInput& input, DeltaCodec send_as,
                   const std::function<WorkResult(const Payload&)>& pass);
// Its two ends, for one that is made in parts: what came, decoded and measured, or is_refused; and
// what was made of that.
WorkResult OpenPass(const StageWork& work, const PassInput& input);
WorkResult ClosePass(const StageWork& work, const WorkResult& opened, WorkResult made,
                     DeltaCodec send_as);

}  // namespace skerry
