#include "node/trained_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "compression/codec.h"
#include "compression/device_codecs.h"
#include "kernels/plugin/gpu_backend.h"
#include "localsgd/table_choice.h"
#include "model/stage_state.h"
#include "pipeline/plan/round_shape.h"

namespace skerry {
namespace {

// A float32 view of a payload; payloads come from vectors of the allocator, so they are aligned.
std::span<const float> Floats(const Payload& payload) {
  const std::span<const uint8_t> bytes = View(payload);
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}
std::span<float> Floats(Bytes& bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Where the stage is on a GPU deltas are encoded there: the processor is left to those who share
// it.
CodecSource EncodersOf(Backend& backend) {
  const GpuHandle gpu = GpuOf(backend);
  if (gpu.device == nullptr) return {};
  return [gpu](DeltaCodec kind) -> std::shared_ptr<const Codec> {
    if (kind > kLastShapeless) return nullptr;
    return MakeDeviceCodec(kind, *gpu.table, gpu.device);
  };
}

}  // namespace

TrainedStage::TrainedStage(const RunConfig& config, std::vector<Device> devices,
                           std::unique_ptr<TokenSource> tokens)
    : config_(config),
      tokens_per_microbatch_(config.pipeline.sequences_per_microbatch * config.model.context),
      floats_(int64_t{tokens_per_microbatch_} * config.model.hidden),
      devices_(std::move(devices)),
      tokens_(std::move(tokens)),
      clock_(config),
      inputs_(static_cast<size_t>(tokens_per_microbatch_)),
      targets_(static_cast<size_t>(tokens_per_microbatch_)) {}

absl::StatusOr<std::unique_ptr<StageWork>> TrainedStage::Create(
    const RunConfig& config, const StageAssignment& stage, bool holds_ends,
    std::unique_ptr<Backend> backend, std::unique_ptr<TokenSource> tokens,
    int32_t recomputed_layers, int64_t least_part) {
  std::vector<Device> devices;
  devices.push_back({std::move(backend)});
  return Create(config, stage, holds_ends, std::move(devices), std::move(tokens), recomputed_layers,
                DeviceSplit::kSequences, least_part);
}

absl::StatusOr<std::unique_ptr<StageWork>> TrainedStage::Create(
    const RunConfig& config, const StageAssignment& stage, bool holds_ends,
    std::vector<Device> devices, std::unique_ptr<TokenSource> tokens, int32_t recomputed_layers,
    DeviceSplit split, int64_t least_part) {
  SKERRY_CHECK(!holds_ends || tokens != nullptr, "stage 0 reads tokens");
  std::unique_ptr<TrainedStage> work(
      new TrainedStage(config, std::move(devices), std::move(tokens)));
  work->holds_ends_ = holds_ends;
  std::vector<TeamDevice> team;
  for (const Device& device : work->devices_)
    team.push_back({device.backend.get(), device.rate, device.host.get(), device.parking});
  SKERRY_ASSIGN_OR_RETURN(work->trainer_,
                          StageTeam::Create(config,
                                            {stage.first_layer, stage.last_layer, holds_ends,
                                             recomputed_layers, split, least_part},
                                            team));
  work->trainer_->RaiseRates(stage.remade);
  SKERRY_RETURN_IF_ERROR(work->StartRounds(stage));
  work->NoteHeld();
  return work;
}

std::vector<int64_t> TrainedStage::BlockSizes() const {
  std::vector<int64_t> sizes;
  for (const ParameterBlock& block : trainer_->layout().blocks()) sizes.push_back(block.size);
  return sizes;
}

absl::Status TrainedStage::StartRounds(const StageAssignment& stage) {
  SKERRY_ASSIGN_OR_RETURN(law_, OuterLaw::Of(config_.outer));
  const auto replicas = static_cast<int64_t>(stage.replicas.size());
  if (IsShardedStage(config_, stage)) sharded_over_ = replicas;
  const int64_t values = parameters();
  law_.replica.shape = ShapeOf(trainer_->layout());
  law_.replica.source = EncodersOf(*devices_.front().backend);
  // Outlives the replica that a joiner's state replaces. Fragments have no tables.
  if (law_.fragments == 1) {
    law_.replica.codecs = std::make_shared<CodecBook>(
        config_.outer, values, sharded_over_ > 0 ? PieceCut::Of(values, sharded_over_) : PieceCut(),
        law_.replica.shape, law_.replica.source);
  }
  fragments_ = std::make_unique<OuterFragments>(law_, BlockSizes(), trainer_->HostParameters(),
                                                sharded_over_);
  for (int32_t f = 0; f < fragments_->count(); ++f) {
    ranges_.push_back(fragments_->range(f));
    cuts_.push_back(fragments_->cut(f));
    books_.push_back(law_.replica.codecs ? law_.replica.codecs
                                         : std::make_shared<CodecBook>(
                                               config_.outer, ranges_.back().size, cuts_.back(),
                                               SliceShape(law_.replica.shape, ranges_.back().first,
                                                          ranges_.back().size)));
    if (sharded_over_ > 0) reducers_.emplace_back(config_.outer, cuts_.back(), 0, books_.back());
  }
  digests_.resize(ranges_.size());
  return absl::OkStatus();
}

// What a round concerns.
std::span<float> TrainedStage::PartOf(int64_t round, std::span<float> whole) const {
  const FragmentRange& range = ranges_[static_cast<size_t>(clock_.FragmentOf(round))];
  return whole.subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.size));
}

// What a simulator charges when real arithmetic runs on virtual time: the tiny models of tests take
// no time worth telling apart, so the order of magnitude of one core serves.
Duration TrainedStage::Cost(WorkKind kind) const {
  constexpr double kFlopsPerSecond = 2e10;
  const double forward = 2.0 * static_cast<double>(parameters()) * tokens_per_microbatch_;
  switch (kind) {
    case WorkKind::kForward:
      return Duration::Seconds(forward / kFlopsPerSecond);
    case WorkKind::kLoss:
      return Duration::Seconds(0.3 * forward / kFlopsPerSecond);
    case WorkKind::kBackward:
      return Duration::Seconds(2 * forward / kFlopsPerSecond);
    default:
      return Duration::Seconds(10.0 * static_cast<double>(parameters()) / kFlopsPerSecond);
  }
}

void TrainedStage::NoteHeld(int64_t transient) {
  const int64_t host =
      static_cast<int64_t>(sizeof(float)) * static_cast<int64_t>(inputs_.size() + targets_.size());
  int64_t sums = 0;
  for (const PieceReducer& reducer : reducers_) sums += reducer.HeldBytes();
  const int64_t held = trainer_->HeldBytes() + fragments_->HeldBytes() + sums + host + transient;
  held_peak_.Raise(held);
}

WorkResult TrainedStage::Result(absl::Status status, Bytes values) {
  NoteHeld(static_cast<int64_t>(values.size()));
  WorkResult result;
  result.tokens = tokens_per_microbatch_;
  if (status.ok()) result.values = streams_.Wrap(std::move(values));
  result.status = std::move(status);
  return result;
}

// For what a pass sends on. The stream of a whole model stays on its devices.
Bytes TrainedStage::RoomForStream() {
  if (trainer_->KeepsStream()) return {};
  return streams_.Take(static_cast<size_t>(boundary_bytes()));
}

WorkResult TrainedStage::ForwardFirst(int64_t step, int32_t microbatch) {
  Bytes out = RoomForStream();
  absl::Status status = tokens_->Read(step, microbatch, inputs_, targets_);
  if (status.ok()) status = trainer_->ForwardFirst({step, microbatch}, inputs_, Floats(out));
  return Result(std::move(status), std::move(out));
}

WorkResult TrainedStage::Forward(int64_t step, int32_t microbatch, const Payload& in) {
  Bytes out = RoomForStream();
  absl::Status status = trainer_->Forward({step, microbatch}, Floats(in), Floats(out));
  return Result(std::move(status), std::move(out));
}

WorkResult TrainedStage::Loss(int64_t step, int32_t microbatch, const Payload& in) {
  Bytes d_in = RoomForStream();
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
  Bytes d_in = holds_ends_ ? Bytes() : RoomForStream();
  absl::Status status = trainer_->Backward({step, microbatch}, Floats(d_out), Floats(d_in));
  return Result(std::move(status), std::move(d_in));
}

WorkResult TrainedStage::RunBackwardPart(int64_t step, int32_t microbatch, const Payload& d_out,
                                         size_t part) {
  const bool is_last = part + 1 == trainer_->parts().size();
  half_back_.reset();
  if (!is_last) half_back_ = {step, microbatch};
  Bytes d_in = holds_ends_ ? Bytes() : RoomForStream();
  absl::Status status =
      trainer_->BackwardPartOf({step, microbatch}, part, Floats(d_out), Floats(d_in));
  WorkResult made = Result(std::move(status), std::move(d_in));
  if (!is_last) made.values = {};
  return made;
}

absl::StatusOr<StageWork::Recomputed> TrainedStage::Recompute(const Payload& in,
                                                              const Payload& d_out) {
  if (half_back_) return FailedPrecondition("a backward pass of its own is under way");
  constexpr int64_t kOfNoStep = -1;
  WorkResult out = Forward(kOfNoStep, 0, in);
  WorkResult d_in;
  if (out.status.ok()) d_in = Backward(kOfNoStep, 0, d_out);
  Discard(kOfNoStep, 0);
  SKERRY_RETURN_IF_ERROR(out.status);
  SKERRY_RETURN_IF_ERROR(d_in.status);
  return Recomputed{std::move(out.values), std::move(d_in.values)};
}

void TrainedStage::Accumulate(int64_t step, int32_t microbatch) {
  trainer_->Accumulate({step, microbatch});
}

void TrainedStage::Discard(int64_t step, int32_t microbatch) {
  const MicrobatchKey key{step, microbatch};
  if (half_back_ == key) half_back_.reset();
  trainer_->Discard(key);
}

absl::Status TrainedStage::OptimizerStep(int64_t step, int32_t microbatches) {
  SKERRY_RETURN_IF_ERROR(trainer_->OptimizerStep(step, microbatches));
  const bool ends_round = (step + 1) % config_.outer.inner_steps == 0;
  return ends_round ? trainer_->CheckEqual() : absl::OkStatus();
}

absl::StatusOr<Payload> TrainedStage::EncodeDelta(int64_t round) {
  const std::span<float> theta = trainer_->HostParameters();
  const int32_t fragment = clock_.FragmentOf(round);
  SKERRY_ASSIGN_OR_RETURN(Payload message, fragments_->Encode(fragment, theta));
  NoteHeld();
  const bool goes_back = clock_.restarts() && round == first_round_;  // no step is due yet
  if (goes_back) {
    SKERRY_RETURN_IF_ERROR(fragments_->Restart(fragment, theta));
  }
  if (goes_back || fragments_->ShiftsWeights()) trainer_->HostParametersChanged();
  return message;
}

absl::Status TrainedStage::ApplyRound(int64_t round, const std::vector<Accepted>& participants) {
  std::vector<OuterReplica::Accepted> accepted;
  for (const Accepted& p : participants)
    accepted.push_back({p.tokens, View(p.payload), p.own, p.rounds});
  const int32_t fragment = clock_.FragmentOf(round);
  SKERRY_RETURN_IF_ERROR(fragments_->Apply(fragment, accepted, trainer_->HostParameters()));
  digests_[static_cast<size_t>(fragment)].reset();
  screened_.clear();
  const std::vector<bool>& screened = fragments_->replica(fragment).screened();
  for (size_t i = 0; i < screened.size(); ++i) {
    if (screened[i]) screened_.push_back(participants[i].sender);
  }
  std::sort(screened_.begin(), screened_.end());
  trainer_->HostParametersChanged();
  return absl::OkStatus();
}

absl::Status TrainedStage::CheckDelta(int64_t round, const Payload& delta) const {
  return CodecOf(round, 0)->Check(View(delta), MessageValues(round, 0));
}

absl::StatusOr<DeltaStatistics> TrainedStage::MeasureDelta() {
  if (fragments_->count() != 1) return FailedPrecondition("fragments have no tables of codecs");
  const std::vector<int64_t> parts = TableParts(trainer_->layout());
  SKERRY_ASSIGN_OR_RETURN(
      const PartStatistics measured,
      fragments_->replica(0).Measure(trainer_->HostParameters(), parts, TableCodecs(config_)));
  // The largest part, in float32, as its message and decoded again.
  if (!parts.empty()) NoteHeld(3 * 4 * *std::max_element(parts.begin(), parts.end()));
  return SaidOf(measured);
}

absl::Status TrainedStage::SetTable(int64_t first_round, const Bytes& table) {
  if (books_.size() != 1) return InvalidArgument("fragments have no tables of codecs");
  return books_.front()->SetTable(first_round, table);
}

std::vector<float> TrainedStage::DecodeDelta(int64_t round, const Payload& delta) const {
  std::vector<float> values(static_cast<size_t>(parameters()));
  const absl::Status decoded = CodecOf(round, 0)->Decode(View(delta), PartOf(round, values));
  SKERRY_CHECK(decoded.ok(), "a delta of our own making");
  return values;
}

std::vector<float> TrainedStage::LiveParameters() {
  std::vector<float> live(static_cast<size_t>(parameters()));
  trainer_->ReadParameters(live);
  return live;
}

void TrainedStage::AdoptBase() {
  fragments_.reset();  // never two of them
  fragments_ = std::make_unique<OuterFragments>(law_, BlockSizes(), trainer_->HostParameters(),
                                                sharded_over_);
  std::fill(digests_.begin(), digests_.end(), std::nullopt);
}

// Of several fragments the digest of their digests, so that a round costs what it changes; at the
// end that of the whole base, which the export is held to.
Digest TrainedStage::BaseDigest() {
  std::vector<uint8_t> all;
  for (size_t f = 0; f < digests_.size(); ++f) {
    const OuterReplica& replica = fragments_->replica(static_cast<int32_t>(f));
    if (digests_.size() == 1) return replica.BaseDigest();
    if (!digests_[f]) digests_[f] = replica.BaseDigest();
    all.insert(all.end(), digests_[f]->bytes.begin(), digests_[f]->bytes.end());
  }
  if (fragments_->version() < clock_.rounds()) return DigestOf(std::span<const uint8_t>(all));
  DigestStream whole;
  for (int32_t f = 0; f < fragments_->count(); ++f) {
    const std::span<const float> base = fragments_->replica(f).base();
    whole.Add({reinterpret_cast<const uint8_t*>(base.data()), base.size_bytes()});
  }
  return whole.Finish();
}

Payload TrainedStage::BaseParameters() {
  // Training is over, or nearly: what its microbatches used makes room.
  trainer_->Trim();
  streams_.Trim();
  Bytes bytes(static_cast<size_t>(parameters()) * sizeof(float));
  fragments_->ReadBase(Floats(bytes));
  return MakePayload(std::move(bytes));
}

absl::StatusOr<Payload> TrainedStage::SaveState() {
  Bytes state = NewState(fragments_->size(), trainer_->moments(), fragments_->version(),
                         trainer_->optimizer_steps());
  const StateArrays arrays = ArraysOf(state);
  fragments_->ReadBase(arrays.base);
  fragments_->ReadMomentum(arrays.momentum);
  trainer_->ReadMoments(arrays.first_moment, arrays.second_moment);
  SealState(&state);
  NoteHeld(static_cast<int64_t>(state.size()));
  return MakePayload(std::move(state));
}

absl::StatusOr<Payload> TrainedStage::SaveLiveState(int64_t version) {
  Bytes state =
      NewState(fragments_->size(), trainer_->moments(), version, trainer_->optimizer_steps());
  const StateArrays arrays = ArraysOf(state);
  trainer_->ReadParameters(arrays.base);
  trainer_->ReadMoments(arrays.first_moment, arrays.second_moment);
  SealState(&state);
  NoteHeld(static_cast<int64_t>(state.size()));
  return MakePayload(std::move(state));
}

absl::StatusOr<int64_t> TrainedStage::RestoreState(const Payload& saved) {
  SKERRY_ASSIGN_OR_RETURN(const StateView state, ViewState(View(saved), parameters()));
  const absl::Status moments =
      trainer_->WriteMoments(state.inner_steps, state.first_moment, state.second_moment);
  if (!moments.ok()) return DataLoss("state of a stage: of another inner optimizer");
  TakeBase(state.version, state.base, state.momentum);
  NoteHeld(SizeOf(saved));
  return state.version;
}

void TrainedStage::StartFromBase(int64_t, int64_t round) {
  if (clock_.restarts() && round == fragments_->version()) {
    first_round_ = round;
    fragments_->BeginAnew();
  }
  fragments_->ReadBase(trainer_->HostParameters());
  trainer_->HostParametersChanged();
}

}  // namespace skerry
