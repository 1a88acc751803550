#include "sim/modelled_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/fragment_cut.h"
#include "common/rng.h"
#include "common/status.h"
#include "compression/codec.h"
#include "localsgd/table_choice.h"
#include "pipeline/exec/shown_sum.h"
#include "pipeline/plan/round_shape.h"
#include "routing/cost_model.h"
#include "routing/delta_bits.h"

namespace skerry {
namespace {

// Bytes touched per parameter, read and written, by float32 AdamW (gradient, two moments, weight),
// by encoding (base, weight, residual, message) and by a round (message, base, momentum, weight).
constexpr double kOptimizerBytes = 28;
constexpr double kEncodeBytes = 17;
constexpr double kApplyBytes = 26;
constexpr double kAccumulateBytes = 12;
// A replica's pieces of R messages are as many values as the stage has.
constexpr double kReduceBytes = 12;

uint64_t WeightOf(const StageWork::Accepted& message) {
  return static_cast<uint64_t>(message.tokens) ^ static_cast<uint64_t>(message.rounds - 1) << 48;
}

uint64_t Chain(uint64_t a, uint64_t b) {
  return Mix64(a ^ Mix64(b + 0x9e3779b97f4a7c15ull));
}

Bytes BytesOf(uint64_t fingerprint) {
  Bytes bytes(sizeof fingerprint);
  std::memcpy(bytes.data(), &fingerprint, sizeof fingerprint);
  return bytes;
}

// The last eight bytes: before them there may be a table's.
uint64_t FingerprintOf(const Payload& payload) {
  uint64_t fingerprint = 0;
  const auto bytes = View(payload);
  const size_t count = std::min(bytes.size(), sizeof fingerprint);
  std::memcpy(&fingerprint, bytes.data() + (bytes.size() - count), count);
  return fingerprint;
}

}  // namespace

ModelledStage::ModelledStage(const RunConfig& config, const StageAssignment& stage, bool holds_ends,
                             std::shared_ptr<const ModelledDevice> device,
                             const ModelledThrift& thrift)
    : device_(std::move(device)),
      gradient_parts_(PartsOfSum(config, stage, holds_ends)),
      clock_(config) {
  const int32_t layers = stage.last_layer - stage.first_layer;
  const double layer = LayerForwardFlops(config);
  forward_flops_ = layers * layer;
  backward_flops_ = (kBackwardPerForward + thrift.waits) * forward_flops_;
  backward_flops_ += thrift.recomputed_layers * LayerRepeatShare(config) * layer;
  host_step_s_ = thrift.offloads ? kOffloadSeconds : 0;
  loss_flops_ = LossFlops(config);
  optimizer_flops_ = layers * LayerOptimizerFlops(config);
  parameters_ = StageParameters(config.model, layers, holds_ends);
  boundary_bytes_ = BoundaryBytes(config);
  tokens_ = static_cast<int32_t>(MicrobatchTokens(config));
  const auto replicas = static_cast<int64_t>(stage.replicas.size());
  for (const FragmentRange& part : CutFragments(StageBlocks(config.model, layers, holds_ends),
                                                static_cast<int32_t>(clock_.fragments()))) {
    sizes_.push_back(part.size);
    cuts_.push_back(IsShardedStage(config, stage) ? PieceCut::Of(part.size, replicas) : PieceCut());
  }
  residuals_.resize(cuts_.size());
  left_over_.resize(cuts_.size());
  up_bits_ = CodecBitsOf(config.outer, config.outer.codec);
  down_bits_ = CodecBitsOf(config.outer, DownCodecOf(config.outer));
  if (HasBudget(config.outer)) {
    parts_ = TableParts(
        ParameterLayout::ForStage(config.model, stage.first_layer, stage.last_layer, holds_ends));
    codecs_ = TableCodecs(config);
    down_follows_ = config.outer.down_codec == DownCodec::kAuto;
  }
  base_ = theta_ = stepped_ = Chain(config.seed, static_cast<uint64_t>(stage.first_layer));
}

Duration ModelledStage::Cost(WorkKind kind) const {
  const auto compute = [&](double flops) {
    return Duration::Seconds(ComputeSeconds(flops, device_->gflops));
  };
  const auto memory = [&](double bytes_each) {
    return Duration::Seconds(bytes_each * static_cast<double>(parameters_) /
                             device_->memory_bytes_per_s);
  };
  // Of one fragment, about.
  const auto round = [&](double bytes_each) {
    return memory(bytes_each / static_cast<double>(clock_.fragments()));
  };
  switch (kind) {
    case WorkKind::kForward:
      return compute(forward_flops_);
    case WorkKind::kLoss:
      return compute(loss_flops_);
    case WorkKind::kBackward:
      return compute(backward_flops_);
    case WorkKind::kAccumulate:
      return memory(kAccumulateBytes);
    case WorkKind::kOptimizer:
      return memory(kOptimizerBytes) + compute(optimizer_flops_) +
             Duration::Seconds(host_step_s_ * static_cast<double>(parameters_));
    case WorkKind::kEncode:
      return round(kEncodeBytes);
    case WorkKind::kApply:
      return round(kApplyBytes);
    case WorkKind::kReduce:
      return round(kReduceBytes);
  }
  return Duration();
}

WorkResult ModelledStage::Boundary(uint64_t fingerprint) const {
  WorkResult result;
  result.tokens = tokens_;
  result.values = MakeHollowPayload(BytesOf(fingerprint), boundary_bytes_);
  return result;
}

WorkResult ModelledStage::ForwardFirst(int64_t step, int32_t microbatch) {
  return Boundary(Chain(static_cast<uint64_t>(step), static_cast<uint64_t>(microbatch)));
}

WorkResult ModelledStage::Forward(int64_t, int32_t, const Payload& in) {
  return Boundary(FingerprintOf(in));
}

WorkResult ModelledStage::Loss(int64_t, int32_t, const Payload& in) {
  return Boundary(FingerprintOf(in));
}

WorkResult ModelledStage::Backward(int64_t, int32_t, const Payload& d_out) {
  return Boundary(FingerprintOf(d_out));
}

void ModelledStage::Accumulate(int64_t step, int32_t microbatch) {
  const uint64_t gradient = Chain(static_cast<uint64_t>(step), static_cast<uint64_t>(microbatch));
  gradients_ += gradient;
  if (!sums_) theta_ = Chain(theta_, gradient);
}

absl::Status ModelledStage::OptimizerStep(int64_t step, int32_t microbatches) {
  if (sums_) theta_ = Chain(theta_, gradients_);
  gradients_ = 0;
  theta_ = Chain(theta_, static_cast<uint64_t>(step) << 32 | static_cast<uint32_t>(microbatches));
  return absl::OkStatus();
}

absl::StatusOr<Payload> ModelledStage::EncodeDelta(int64_t round) {
  const uint64_t fingerprint = Chain(base_, theta_);
  if (round == first_round_) Restart();
  const Table table = TableOf(round);
  return MakeHollowPayload(MessageOf(fingerprint, table), DeltaSize(round, table));
}

// In co2 what was done since the boundary is in the message, and nowhere else.
void ModelledStage::Restart() {
  if (clock_.restarts()) theta_ = base_;
}

absl::Status ModelledStage::ApplyRound(int64_t round, const std::vector<Accepted>& participants) {
  for (const Accepted& p : participants) SKERRY_RETURN_IF_ERROR(CheckDelta(round, p.payload));
  uint64_t sum = 0;  // the mean does not depend on an order
  for (const Accepted& p : participants) sum += Chain(FingerprintOf(p.payload), WeightOf(p));
  base_ = Chain(base_, sum);
  theta_ = Chain(theta_, base_);
  Restart();
  ++version_;
  return absl::OkStatus();
}

const PieceCut& ModelledStage::CutOf(int64_t round) const {
  return cuts_[static_cast<size_t>(clock_.FragmentOf(round))];
}

int32_t ModelledStage::pieces(int64_t round) const {
  const PieceCut& cut = CutOf(round);
  return cut.piece > 0 ? cut.count() : 0;
}

absl::StatusOr<std::vector<Payload>> ModelledStage::EncodePieces(int64_t round) {
  const Table table = TableOf(round);
  std::vector<Payload> encoded;
  for (int32_t i = 0; i < pieces(round); ++i) {
    const uint64_t fingerprint = Chain(Chain(base_, theta_), static_cast<uint64_t>(i));
    const int64_t bytes = EncodedBytes(CutOf(round), i, table);
    encoded.push_back(MakeHollowPayload(MessageOf(fingerprint, table), bytes));
  }
  if (round == first_round_) Restart();
  return encoded;
}

int64_t ModelledStage::EncodedBytes(const PieceCut& cut, int32_t piece, const Table& table) {
  const auto bytes = static_cast<int64_t>(table.bits * static_cast<double>(cut.Size(piece)) / 8);
  return std::max<int64_t>(bytes, (table.fingerprint != 0 ? 2 : 1) * sizeof(uint64_t));
}

int64_t ModelledStage::PiecesBytes(int64_t round) const {
  int64_t bytes = 0;
  for (int32_t i = 0; i < pieces(round); ++i)
    bytes += EncodedBytes(CutOf(round), i, TableOf(round));
  return bytes;
}

int64_t ModelledStage::SumsBytes(int64_t round) const {
  int64_t bytes = 0;
  for (int32_t i = 0; i < pieces(round); ++i)
    bytes += EncodedBytes(CutOf(round), i, DownTableOf(round));
  return bytes;
}

// The sum does not depend on an order, but on what the reducer had left before.
uint64_t ModelledStage::SumOf(const Reduction& reduction, size_t index) const {
  uint64_t sum = 0;
  for (const Accepted& m : reduction.messages[index]) {
    sum += Chain(FingerprintOf(m.payload), WeightOf(m));
  }
  const auto& residuals = residuals_[static_cast<size_t>(clock_.FragmentOf(reduction.round))];
  const auto residual = residuals.find(reduction.pieces[index]);
  return Chain(sum, residual == residuals.end() ? 0 : residual->second);
}

int64_t ModelledStage::LeftOverBytes(int64_t round, int32_t piece) const {
  const PieceCut& cut = CutOf(round);
  return piece < cut.count() ? 4 * cut.Size(piece) : 0;
}

absl::StatusOr<std::vector<Payload>> ModelledStage::LeftOverBefore(const SumCheck& check) const {
  std::vector<Payload> left;
  for (const int32_t piece : check.drawn) {
    left.push_back(MakeHollowPayload({}, LeftOverBytes(check.round, piece)));
  }
  return left;
}

SumVerdict ModelledStage::FollowSum(const SumCheck& check, const Payload& shown) {
  const bool is_shown = UnpackShown(shown, check.summed.size(), check.drawn.size()).ok();
  return is_shown ? SumVerdict::kTrue : SumVerdict::kNotShown;
}

absl::StatusOr<std::vector<Payload>> ModelledStage::ReducePieces(
    const Reduction& reduction, std::vector<PieceState>* states) const {
  const Table table = DownTableOf(reduction.round);
  std::vector<Payload> sums;
  for (size_t i = 0; i < reduction.pieces.size(); ++i) {
    const int32_t piece = reduction.pieces[i];
    if (states != nullptr) states->push_back({piece, {}, {}});
    sums.push_back(MakeHollowPayload(MessageOf(SumOf(reduction, i), table),
                                     EncodedBytes(CutOf(reduction.round), piece, table)));
  }
  return sums;
}

std::vector<Piece> ModelledStage::HandOn(int64_t round, const std::vector<int32_t>& own) {
  std::vector<Piece> pieces;
  std::set<int32_t>& left = left_over_[static_cast<size_t>(clock_.FragmentOf(round))];
  for (const int32_t piece : std::exchange(left, {})) {
    if (std::binary_search(own.begin(), own.end(), piece)) {
      left.insert(piece);
      continue;
    }
    const Table table = DownTableOf(round);
    pieces.push_back(
        {piece, MakeHollowPayload(MessageOf(0, table), EncodedBytes(CutOf(round), piece, table))});
  }
  return pieces;
}

absl::Status ModelledStage::ApplySums(const Landing& landing) {
  const int32_t want = pieces(landing.round);
  if (static_cast<int32_t>(landing.sums.size()) != want) {
    return InvalidArgument("want the sums of %d pieces, got %d", want, landing.sums.size());
  }
  std::map<int32_t, uint64_t> residuals;
  for (size_t i = 0; i < landing.own.pieces.size(); ++i) {
    const int32_t piece = landing.own.pieces[i];
    const uint64_t sum = SumOf(landing.own, i);
    if (sum != FingerprintOf(landing.sums[static_cast<size_t>(piece)])) {
      return Internal("piece %d: the sum is not what its reducer makes of its messages", piece);
    }
    residuals[piece] = Chain(sum, 1);
    left_over_[static_cast<size_t>(clock_.FragmentOf(landing.round))].insert(piece);
  }
  residuals_[static_cast<size_t>(clock_.FragmentOf(landing.round))] = std::move(residuals);
  for (const Payload& sum : landing.sums) base_ = Chain(base_, FingerprintOf(sum));
  theta_ = Chain(theta_, base_);
  Restart();
  ++version_;
  return absl::OkStatus();
}

absl::Status ModelledStage::CheckPieces(int64_t round, const std::vector<Piece>& pieces) const {
  const Table table = TableOf(round);
  for (const Piece& piece : pieces) {
    if (piece.index >= this->pieces(round) || !IsMessageOf(piece.message, table)) {
      return InvalidArgument("piece %d: not a message of this stage", piece.index);
    }
  }
  return absl::OkStatus();
}

absl::Status ModelledStage::CheckSums(int64_t round, const std::vector<Piece>& sums) const {
  const Table table = DownTableOf(round);
  for (const Piece& sum : sums) {
    if (sum.index >= pieces(round) || !IsMessageOf(sum.message, table)) {
      return InvalidArgument("sum of piece %d: not a message of this stage", sum.index);
    }
  }
  return absl::OkStatus();
}

absl::Status ModelledStage::CheckDelta(int64_t round, const Payload& delta) const {
  const Table table = TableOf(round);
  if (SizeOf(delta) != DeltaSize(round, table) || !IsMessageOf(delta, table)) {
    return InvalidArgument("delta: not a message of this stage");
  }
  return absl::OkStatus();
}

// ---- tables ------------------------------------------------------------------------------------

ModelledStage::Table ModelledStage::TableOf(int64_t round) const {
  const auto after = tables_.upper_bound(round);
  return after == tables_.begin() ? Table{0, up_bits_} : std::prev(after)->second;
}

ModelledStage::Table ModelledStage::DownTableOf(int64_t round) const {
  const Table table = TableOf(round);
  return down_follows_ && table.fingerprint != 0 ? table : Table{0, down_bits_};
}

int64_t ModelledStage::DeltaSize(int64_t round, const Table& table) const {
  const auto values = static_cast<double>(sizes_[static_cast<size_t>(clock_.FragmentOf(round))]);
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(table.bits * values / 8)),
                           (table.fingerprint != 0 ? 2 : 1) * sizeof(uint64_t));
}

Bytes ModelledStage::MessageOf(uint64_t value, const Table& table) {
  Bytes bytes = table.fingerprint != 0 ? BytesOf(table.fingerprint) : Bytes();
  const Bytes of_value = BytesOf(value);
  bytes.insert(bytes.end(), of_value.begin(), of_value.end());
  return bytes;
}

// The fingerprint of no value stands for a payload that no codec would make.
bool ModelledStage::IsMessageOf(const Payload& payload, const Table& table) {
  const Bytes like = MessageOf(FingerprintOf(payload), table);
  const auto bytes = View(payload);
  return FingerprintOf(payload) != ~uint64_t{0} && bytes.size() == like.size() &&
         std::equal(bytes.begin(), bytes.end(), like.begin());
}

absl::StatusOr<DeltaStatistics> ModelledStage::MeasureDelta() {
  PartStatistics all;
  for (size_t p = 0; p < parts_.size(); ++p) {
    // Tensors differ by up to sixteen octaves of the square.
    const double octaves = static_cast<double>(Chain(theta_, p) % 1024) / 64;
    std::vector<CodecChoice>& choices = all.emplace_back();
    for (const DeltaCodec codec : codecs_) {
      const Codec& of = CodecFor(codec);
      const double each = std::exp2(-octaves - 2 * DeltaBitsPerValue(codec));
      choices.push_back({(of.EncodedSizeMin(parts_[p]) + of.EncodedSizeMax(parts_[p])) / 2,
                         1e-6 * static_cast<double>(parts_[p]) * each});
    }
  }
  return SaidOf(all);
}

absl::Status ModelledStage::SetTable(int64_t first_round, const Bytes& packed) {
  SKERRY_ASSIGN_OR_RETURN(const CodecTable table, UnpackTable(packed));
  double bits = 0;
  for (const TablePart& part : table) {
    bits += static_cast<double>(part.values) * DeltaBitsPerValue(part.codec);
  }
  tables_.emplace(first_round, Table{uint64_t{TableFingerprint(table)} + 1,
                                     bits / static_cast<double>(ValuesOf(table))});
  return absl::OkStatus();
}

}  // namespace skerry
