#include "node/trained_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "compression/codec.h"
#include "localsgd/table_choice.h"
#include "node/stage_state.h"

namespace skerry {
namespace {

// A float32 view of a payload; payloads come from vectors of the allocator, so they are aligned.
std::span<const float> Floats(const Payload& payload) {
  return {reinterpret_cast<const float*>(payload->data()), payload->size() / sizeof(float)};
}
std::span<float> Floats(Bytes& bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

TrainedStage::TrainedStage(const RunConfig& config, std::unique_ptr<Backend> backend,
                           std::unique_ptr<TokenSource> tokens)
    : config_(config),
      tokens_per_microbatch_(config.pipeline.sequences_per_microbatch * config.model.context),
      floats_(int64_t{tokens_per_microbatch_} * config.model.hidden),
      backend_(std::move(backend)),
      tokens_(std::move(tokens)),
      inputs_(static_cast<size_t>(tokens_per_microbatch_)),
      targets_(static_cast<size_t>(tokens_per_microbatch_)) {}

absl::StatusOr<std::unique_ptr<StageWork>> TrainedStage::Create(
    const RunConfig& config, const StageAssignment& stage, bool holds_ends,
    std::unique_ptr<Backend> backend, std::unique_ptr<TokenSource> tokens) {
  SKERRY_CHECK(!holds_ends || tokens != nullptr, "stage 0 reads tokens");
  std::unique_ptr<TrainedStage> work(
      new TrainedStage(config, std::move(backend), std::move(tokens)));
  work->holds_ends_ = holds_ends;
  SKERRY_ASSIGN_OR_RETURN(
      work->trainer_, StageTrainer::Create(config, stage.first_layer, stage.last_layer, holds_ends,
                                           work->backend_.get()));
  work->theta_.resize(static_cast<size_t>(work->trainer_->layout().size()));
  work->trainer_->ReadParameters(work->theta_);
  const auto replicas = static_cast<int64_t>(stage.replicas.size());
  if (IsSharded(config.outer, replicas)) {
    work->cut_ = PieceCut::Of(work->trainer_->layout().size(), replicas);
  }
  work->codecs_ =
      std::make_shared<CodecBook>(config.outer, work->trainer_->layout().size(), work->cut_);
  if (work->cut_.piece > 0) {
    work->reducer_ = std::make_unique<PieceReducer>(config.outer, work->cut_, 0, work->codecs_);
  }
  work->replica_ =
      std::make_unique<OuterReplica>(config.outer, work->theta_, work->ReplicaOptions());
  work->NoteHeld();
  return work;
}

// What a simulator charges when real arithmetic runs on virtual time: the tiny models of tests take
// no time worth telling apart, so the order of magnitude of one core serves.
Duration TrainedStage::Cost(WorkKind kind) const {
  constexpr double kFlopsPerSecond = 2e10;
  const double forward = 2.0 * static_cast<double>(theta_.size()) * tokens_per_microbatch_;
  switch (kind) {
    case WorkKind::kForward:
      return Duration::Seconds(forward / kFlopsPerSecond);
    case WorkKind::kLoss:
      return Duration::Seconds(0.3 * forward / kFlopsPerSecond);
    case WorkKind::kBackward:
      return Duration::Seconds(2 * forward / kFlopsPerSecond);
    default:
      return Duration::Seconds(10.0 * static_cast<double>(theta_.size()) / kFlopsPerSecond);
  }
}

void TrainedStage::NoteHeld(int64_t transient) {
  const int64_t host = static_cast<int64_t>(sizeof(float)) *
                       static_cast<int64_t>(theta_.size() + inputs_.size() + targets_.size());
  const int64_t sums = reducer_ ? reducer_->HeldBytes() : 0;
  const int64_t held = trainer_->HeldBytes() + replica_->HeldBytes() + sums + host + transient;
  held_peak_.Raise(held);
}

WorkResult TrainedStage::Result(absl::Status status, Bytes values) {
  NoteHeld(static_cast<int64_t>(values.size()));
  WorkResult result;
  result.tokens = tokens_per_microbatch_;
  if (status.ok()) result.values = MakePayload(std::move(values));
  result.status = std::move(status);
  return result;
}

WorkResult TrainedStage::ForwardFirst(int64_t step, int32_t microbatch) {
  Bytes out(static_cast<size_t>(boundary_bytes()));
  absl::Status status = tokens_->Read(step, microbatch, inputs_, targets_);
  if (status.ok()) status = trainer_->ForwardFirst({step, microbatch}, inputs_, Floats(out));
  return Result(std::move(status), std::move(out));
}

WorkResult TrainedStage::Forward(int64_t step, int32_t microbatch, const Payload& in) {
  Bytes out(static_cast<size_t>(boundary_bytes()));
  absl::Status status = trainer_->Forward({step, microbatch}, Floats(in), Floats(out));
  return Result(std::move(status), std::move(out));
}

WorkResult TrainedStage::Loss(int64_t step, int32_t microbatch, const Payload& in) {
  Bytes d_in(static_cast<size_t>(boundary_bytes()));
  // Read again rather than kept: a microbatch may be away for a long time, tokens are cheap.
  absl::Status status = tokens_->Read(step, microbatch, inputs_, targets_);
  float loss = 0;
  if (status.ok()) {
    const auto value = trainer_->Loss({step, microbatch}, Floats(in), targets_, Floats(d_in));
    status = value.status();
    if (value.ok()) loss = *value;
  }
  WorkResult result = Result(std::move(status), std::move(d_in));
  result.loss = loss;
  return result;
}

WorkResult TrainedStage::Backward(int64_t step, int32_t microbatch, const Payload& d_out) {
  Bytes d_in(holds_ends_ ? 0 : static_cast<size_t>(boundary_bytes()));
  absl::Status status = trainer_->Backward({step, microbatch}, Floats(d_out), Floats(d_in));
  return Result(std::move(status), std::move(d_in));
}

void TrainedStage::Accumulate(int64_t step, int32_t microbatch) {
  trainer_->Accumulate({step, microbatch});
}

void TrainedStage::Discard(int64_t step, int32_t microbatch) {
  trainer_->Discard({step, microbatch});
}

absl::Status TrainedStage::OptimizerStep(int64_t step, int32_t microbatches) {
  return trainer_->OptimizerStep(step, microbatches);
}

absl::StatusOr<Payload> TrainedStage::EncodeDelta(int64_t) {
  trainer_->ReadParameters(theta_);
  SKERRY_ASSIGN_OR_RETURN(Bytes message, replica_->Encode(theta_));
  NoteHeld();
  return MakePayload(std::move(message));
}

absl::Status TrainedStage::ApplyRound(int64_t, const std::vector<Accepted>& participants) {
  std::vector<OuterReplica::Accepted> accepted;
  for (const Accepted& p : participants) accepted.push_back({p.tokens, View(p.payload), p.own});
  trainer_->ReadParameters(theta_);
  SKERRY_RETURN_IF_ERROR(replica_->Apply(accepted, theta_));
  trainer_->WriteParameters(theta_);
  return absl::OkStatus();
}

absl::Status TrainedStage::CheckDelta(int64_t round, const Payload& delta) const {
  return codecs_->Of(round)->Check(View(delta), static_cast<int64_t>(theta_.size()));
}

std::vector<float> TrainedStage::DecodeDelta(int64_t round, const Payload& delta) const {
  std::vector<float> values(theta_.size());
  const absl::Status decoded = codecs_->Of(round)->Decode(View(delta), values);
  SKERRY_CHECK(decoded.ok(), "a delta of our own making");
  return values;
}

absl::StatusOr<DeltaStatistics> TrainedStage::MeasureDelta() {
  trainer_->ReadParameters(theta_);
  const std::vector<int64_t> parts = TableParts(trainer_->layout());
  SKERRY_ASSIGN_OR_RETURN(const PartStatistics measured,
                          replica_->Measure(theta_, parts, TableCodecs(config_)));
  // The largest part, in float32, as its message and decoded again.
  if (!parts.empty()) NoteHeld(3 * 4 * *std::max_element(parts.begin(), parts.end()));
  return SaidOf(measured);
}

absl::Status TrainedStage::SetTable(int64_t first_round, const Bytes& table) {
  return codecs_->SetTable(first_round, table);
}

std::vector<float> TrainedStage::LiveParameters() {
  std::vector<float> live(theta_.size());
  trainer_->ReadParameters(live);
  return live;
}

void TrainedStage::AdoptBase() {
  trainer_->ReadParameters(theta_);
  replica_.reset();  // never two of them
  replica_ = std::make_unique<OuterReplica>(config_.outer, theta_, ReplicaOptions());
}

Digest TrainedStage::BaseDigest() {
  return replica_->BaseDigest();
}

Payload TrainedStage::BaseParameters() {
  // Training is over, or nearly: what its microbatches used makes room.
  trainer_->Trim();
  const auto base = replica_->base();
  Bytes bytes(base.size_bytes());
  std::memcpy(bytes.data(), base.data(), bytes.size());
  return MakePayload(std::move(bytes));
}

absl::StatusOr<Payload> TrainedStage::SaveState() {
  const auto base = replica_->base(), momentum = replica_->momentum();
  const StageOptimizer& optimizer = trainer_->optimizer();
  Bytes state =
      NewState(replica_->size(), optimizer.moments(), replica_->version(), optimizer.steps());
  const StateArrays arrays = ArraysOf(state);
  std::copy(base.begin(), base.end(), arrays.base.begin());
  std::copy(momentum.begin(), momentum.end(), arrays.momentum.begin());
  optimizer.ReadMoments(arrays.first_moment, arrays.second_moment);
  SealState(&state);
  NoteHeld(static_cast<int64_t>(state.size()));
  return MakePayload(std::move(state));
}

absl::StatusOr<int64_t> TrainedStage::RestoreState(const Payload& saved) {
  SKERRY_ASSIGN_OR_RETURN(const StateView state,
                          ViewState(View(saved), static_cast<int64_t>(theta_.size())));
  const absl::Status moments = trainer_->optimizer().WriteMoments(
      state.inner_steps, state.first_moment, state.second_moment);
  if (!moments.ok()) return DataLoss("state of a stage: of another inner optimizer");
  theta_.assign(state.base.begin(), state.base.end());
  trainer_->WriteParameters(theta_);
  replica_.reset();  // never two of them
  replica_ = std::make_unique<OuterReplica>(OuterReplica::At(
      config_.outer, state.version, theta_,
      std::vector<float>(state.momentum.begin(), state.momentum.end()), ReplicaOptions()));
  NoteHeld(SizeOf(saved));
  return state.version;
}

void TrainedStage::StartFromBase(int64_t, int64_t) {
  const auto base = replica_->base();
  theta_.assign(base.begin(), base.end());
  trainer_->WriteParameters(theta_);
}

}  // namespace skerry
