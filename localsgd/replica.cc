#include "localsgd/replica.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/digest.h"
#include "common/status.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"

namespace skerry {
namespace {

constexpr int64_t kRoundsLookedAt = 16;  // so late

using TileValues = std::array<float, static_cast<size_t>(RoundMean::kTile)>;

OuterOptimizerConfig OptimizerConfig(const OuterConfig& config,
                                     const OuterReplicaOptions& options) {
  OuterOptimizerConfig out;
  out.learning_rate = config.learning_rate;
  out.momentum = config.momentum;
  out.gap.enabled = options.staleness_gap;
  out.gap.staleness = options.staleness;
  out.gap.given = options.gap;
  out.rule = options.rule;
  out.clip_ratio = options.clip_ratio;
  out.momentum_clip = options.momentum_clip;
  return out;
}

bool SameBytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::span<float> TileOf(std::span<float> values, int64_t first) {
  const auto start = static_cast<size_t>(first);
  return values.subspan(start, std::min<size_t>(RoundMean::kTile, values.size() - start));
}

}  // namespace

// What is fixed while a round is applied.
struct OuterReplica::Round {
  const TileSource& mean;
  float clip_factor;
  bool own_accepted;
  PieceCodecs codecs;  // of the own message
};

OuterReplica::OuterReplica(const OuterConfig& config, std::vector<float> base,
                           const OuterReplicaOptions& options)
    : config_(config),
      options_(options),
      optimizer_(OptimizerConfig(config, options), static_cast<int64_t>(base.size())),
      base_(std::move(base)),
      residual_(options.restart ? base_.size() : 0, 0.0f),
      halves_(ShiftsWeights() ? base_.size() : 0, uint16_t{0}) {
  SKERRY_CHECK(!options.restart || UsesBuffer(), "a restart forgets what the weights hold");
  SKERRY_CHECK(options.cut.piece == 0 || (options.cut.parameters == size() && !options.restart));
  if (!options_.codecs) {
    options_.codecs =
        std::make_shared<CodecBook>(config, size(), options.cut, options.shape, options.source);
  }
}

OuterReplica OuterReplica::At(const OuterConfig& config, int64_t version, std::vector<float> base,
                              std::vector<float> momentum, const OuterReplicaOptions& options) {
  OuterReplica replica(config, std::move(base), options);
  replica.optimizer_.Resume(version, std::move(momentum));
  replica.ahead_ = options.restart && version > 0;
  return replica;
}

DeltaSource OuterReplica::Delta(std::span<const float> theta) const {
  return {.base = base_, .theta = theta, .residual = residual_, .halves = halves_};
}

absl::StatusOr<Payload> OuterReplica::Encode(std::span<float> theta) {
  std::vector<Payload>& own = ahead_ ? next_own_ : own_;
  if (!own.empty()) return FailedPrecondition("round %d: a message is pending already", version());
  if (theta.size() != base_.size()) {
    return InvalidArgument("delta: want %d values, got %d", base_.size(), theta.size());
  }
  const auto codec = codecs().Of(NextRound());
  Bytes message;
  SKERRY_RETURN_IF_ERROR(codec->EncodeDelta(Delta(theta), &message));
  own = {MakePayload(std::move(message))};
  if (options_.restart) SettleAtOnce(theta, View(own.front()), *codec);
  if (ShiftsWeights()) KeepRest(theta);
  return own.front();
}

absl::StatusOr<std::vector<Payload>> OuterReplica::EncodePieces(std::span<float> theta) {
  SKERRY_CHECK(options_.cut.piece > 0, "messages of this replica are whole");
  if (HasPending()) return FailedPrecondition("round %d: a message is pending already", version());
  if (theta.size() != base_.size()) {
    return InvalidArgument("delta: want %d values, got %d", base_.size(), theta.size());
  }
  const DeltaSource whole = Delta(theta);
  std::vector<Payload> pieces;
  for (int32_t i = 0; i < options_.cut.count(); ++i) {
    const DeltaSource piece = whole.Part(static_cast<size_t>(options_.cut.First(i)),
                                         static_cast<size_t>(options_.cut.Size(i)));
    Bytes message;
    SKERRY_RETURN_IF_ERROR(codecs().OfPiece(NextRound(), i)->EncodeDelta(piece, &message));
    pieces.push_back(MakePayload(std::move(message)));
  }
  own_ = std::move(pieces);
  if (ShiftsWeights()) KeepRest(theta);
  return own_;
}

absl::StatusOr<PartStatistics> OuterReplica::Measure(std::span<const float> theta,
                                                     std::span<const int64_t> parts,
                                                     std::span<const DeltaCodec> codecs) const {
  if (theta.size() != base_.size()) {
    return InvalidArgument("delta: want %d values, got %d", base_.size(), theta.size());
  }
  PartStatistics all;
  const LoopSource whole = LoopSource::Of(Delta(theta), 0);
  std::vector<float> u;
  size_t first = 0;
  for (const int64_t part : parts) {
    u.resize(static_cast<size_t>(part));
    SKERRY_CHECK(first + u.size() <= base_.size());
    BestLoops().form_delta(whole.At(first), u.size(), u.data());
    SKERRY_ASSIGN_OR_RETURN(all.emplace_back(), MeasureCodecs(u, codecs));
    first += u.size();
  }
  SKERRY_CHECK(first == base_.size());
  return all;
}

OuterReplica::PieceCodecs OuterReplica::CodecsNow() const {
  if (options_.cut.piece == 0) return {codecs().Of(version())};
  PieceCodecs all;
  for (int32_t i = 0; i < options_.cut.count(); ++i) {
    all.push_back(codecs().OfPiece(version(), i));
  }
  return all;
}

void OuterReplica::DecodeOwn(const PieceCodecs& codecs, int64_t first, std::span<float> own) const {
  const PieceCut& cut = options_.cut;
  if (cut.piece == 0) return codecs[0]->DecodeRange(View(own_[0]), size(), first, own);
  const int32_t piece = cut.IndexOf(first);
  const auto index = static_cast<size_t>(piece);
  codecs[index]->DecodeRange(View(own_[index]), cut.Size(piece), first - cut.First(piece), own);
}

// Of the message just encoded. The same u as the encoder's, so these are the bits it saw.
void OuterReplica::KeepRest(std::span<float> theta) {
  const CodecLoops& loops = BestLoops();
  const PieceCodecs codecs = CodecsNow();
  const LoopSource whole = LoopSource::Of(Delta(theta), 0);
  TileValues own, u, e;
  for (int64_t first = 0; first < size(); first += RoundMean::kTile) {
    const std::span<float> live = TileOf(theta, first);
    const size_t count = live.size();
    uint16_t* const halves = halves_.data() + first;
    DecodeOwn(codecs, first, std::span(own).first(count));
    loops.form_delta(whole.At(static_cast<size_t>(first)), count, u.data());
    loops.widen_bf16(halves, count, e.data());
    // A message may be off by more than the largest value there is; what is cut off stays in θ.
    for (size_t i = 0; i < count; ++i) {
      u[i] = std::clamp(u[i] - own[i], -kMagnitudeMax, kMagnitudeMax);
    }
    SKERRY_CHECK(loops.round_to_bf16({.base = u.data()}, count, halves));
    loops.widen_bf16(halves, count, u.data());
    for (size_t i = 0; i < count; ++i) live[i] += u[i] - e[i];
  }
}

void OuterReplica::SettleAtOnce(std::span<const float> theta, std::span<const uint8_t> message,
                                const Codec& codec) {
  TileValues own;
  for (int64_t first = 0; first < size(); first += RoundMean::kTile) {
    const std::span<float> e = TileOf(residual_, first);
    const float* x = base_.data() + first;
    const float* live = theta.data() + first;
    codec.DecodeRange(message, size(), first, std::span(own).first(e.size()));
    for (size_t i = 0; i < e.size(); ++i) e[i] = (x[i] - live[i] + e[i]) - own[i];
  }
}

void OuterReplica::TakeBack(const Codec& codec, int64_t first) {
  TileValues own;
  const std::span<float> e = TileOf(residual_, first);
  codec.DecodeRange(View(own_[0]), size(), first, std::span(own).first(e.size()));
  for (size_t i = 0; i < e.size(); ++i) e[i] += own[i];
}

absl::Status OuterReplica::Restart(std::span<float> theta) {
  if (!options_.restart || ahead_) {
    return FailedPrecondition("round %d: no restart without a step is due", version());
  }
  if (theta.size() != base_.size()) {
    return InvalidArgument("restart: want %d weights, got %d", size(), theta.size());
  }
  std::copy(base_.begin(), base_.end(), theta.begin());
  ahead_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> OuterReplica::FindOwn(std::span<const Accepted> participants) const {
  bool found = false;
  for (size_t i = 0; i < participants.size(); ++i) {
    if (!participants[i].own) continue;
    if (found) return InvalidArgument("participant %d: a second message of our own", i);
    if (!HasPending()) return FailedPrecondition("participant %d: ours, but none is pending", i);
    if (!SameBytes(participants[i].payload, View(own_[0]))) {
      return InvalidArgument("participant %d: ours, but not the message that was encoded", i);
    }
    found = true;
  }
  return found;
}

absl::Status OuterReplica::Apply(std::span<const Accepted> participants, std::span<float> theta) {
  if (theta.size() != base_.size()) {
    return InvalidArgument("round %d: want %d weights, got %d", version(), size(), theta.size());
  }
  SKERRY_ASSIGN_OR_RETURN(const bool own_accepted, FindOwn(participants));
  std::vector<RoundMessage> messages;
  for (const Accepted& p : participants) messages.push_back({p.tokens, p.payload, p.rounds});
  const auto codec = codecs().Of(version());
  SKERRY_ASSIGN_OR_RETURN(const RoundMean mean,
                          RoundMean::Make(*codec, size(), std::move(messages),
                                          options_.nominal_tokens, RobustOptions::Of(config_)));
  screened_ = mean.screened();

  Land([&mean](int64_t first, std::span<float> d) { mean.Tile(first, d); }, own_accepted, theta);
  return absl::OkStatus();
}

absl::Status OuterReplica::ApplySums(std::span<const std::span<const uint8_t>> sums,
                                     bool own_accepted, std::span<float> theta) {
  const PieceCut& cut = options_.cut;
  if (theta.size() != base_.size()) {
    return InvalidArgument("round %d: want %d weights, got %d", version(), size(), theta.size());
  }
  if (cut.piece == 0 || sums.size() != static_cast<size_t>(cut.count())) {
    return InvalidArgument("round %d: want the sums of %d pieces, got %d", version(),
                           cut.piece == 0 ? 0 : cut.count(), sums.size());
  }
  if (own_accepted && !HasPending()) {
    return FailedPrecondition("round %d: our message is in it, but none is pending", version());
  }
  PieceCodecs down;
  for (int32_t i = 0; i < cut.count(); ++i) {
    down.push_back(codecs().DownOfPiece(version(), i));
    const absl::Status checked = down.back()->Check(sums[static_cast<size_t>(i)], cut.Size(i));
    if (!checked.ok()) return Annotate(checked, absl::StrFormat("piece %d", i));
  }
  Land(
      [&](int64_t first, std::span<float> d) {
        const int32_t piece = cut.IndexOf(first);
        down[static_cast<size_t>(piece)]->DecodeRange(sums[static_cast<size_t>(piece)],
                                                      cut.Size(piece), first - cut.First(piece), d);
      },
      own_accepted, theta);
  return absl::OkStatus();
}

void OuterReplica::Land(const TileSource& mean, bool own_accepted, std::span<float> theta) {
  OuterOptimizer::Norms norms;
  TileValues d;
  for (int64_t first = 0; optimizer_.Clips() && first < size(); first += RoundMean::kTile) {
    const std::span<float> x = TileOf(base_, first);
    mean(first, std::span(d).first(x.size()));
    optimizer_.Measure(first, std::span(d).first(x.size()), x, &norms);
  }
  const Round round = {mean, optimizer_.ClipFactor(norms), own_accepted, CodecsNow()};
  for (int64_t first = 0; first < size(); first += RoundMean::kTile) {
    ApplyTile(round, first, theta);
  }
  optimizer_.FinishStep();
  ahead_ = options_.restart;
  // What comes late of the round before is still looked at, and what is shown of sums later still.
  codecs().ForgetBelow(version() - kRoundsLookedAt);
  own_ = std::exchange(next_own_, {});
}

void OuterReplica::ApplyTile(const Round& round, int64_t first, std::span<float> theta) {
  const std::span<float> after = TileOf(base_, first);
  const std::span<float> live = TileOf(theta, first);
  TileValues d, old;
  const auto before = std::span(old).first(after.size());
  std::copy(after.begin(), after.end(), before.begin());
  round.mean(first, std::span(d).first(after.size()));
  optimizer_.ApplyTile(first, std::span(d).first(after.size()), round.clip_factor, after);
  if (options_.restart) {
    if (HasPending() && !round.own_accepted) TakeBack(*round.codecs[0], first);
    std::copy(after.begin(), after.end(), live.begin());
    return;
  }
  // In this order, so that who trained no further since it sent all it had is at the base, exactly.
  for (size_t i = 0; i < live.size(); ++i) live[i] -= before[i];
  if (round.own_accepted) {
    const auto own = std::span(d).first(live.size());
    DecodeOwn(round.codecs, first, own);
    for (size_t i = 0; i < live.size(); ++i) live[i] += own[i];
  }
  for (size_t i = 0; i < live.size(); ++i) live[i] = after[i] + live[i];
}

Digest OuterReplica::BaseDigest() const {
  return DigestOf(std::span<const float>(base_));
}

int64_t OuterReplica::HeldBytes() const {
  const size_t floats = base_.size() + residual_.size() + optimizer_.velocity().size();
  return static_cast<int64_t>(4 * floats + 2 * halves_.size());
}

void OuterReplica::ReadResidual(std::span<float> out) const {
  SKERRY_CHECK(out.size() == base_.size());
  if (!halves_.empty()) return BestLoops().widen_bf16(halves_.data(), out.size(), out.data());
  if (residual_.empty()) return std::fill(out.begin(), out.end(), 0.0f);
  std::copy(residual_.begin(), residual_.end(), out.begin());
}

}  // namespace skerry
