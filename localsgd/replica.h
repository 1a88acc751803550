// One replica's side of the outer rounds of its stage (CO2-δ).
//
// At a boundary the replica encodes the delta of its round and trains on; δ inner steps later, when
// the committed set of messages is known, it applies the outer step and shifts its live weights, so
// that progress made in flight is kept and counted exactly once, in the next delta. δ = 0 is DiLoCo
// (Douillard et al. 2023). Messages go all-to-all among the replicas of a stage and every replica
// is a reducer of the whole stage: the step is computed everywhere, never sent. Or each sums some
// pieces for all (piece_reducer.h), and every replica takes the step with the sums it is sent.
//
// x_v is the base of version v, θ the live weights, D(msg) what a message decodes to. A message
// leaves something out (rounding); where that lives is ResidualPlace:
//
//   kWeights  u = x_v − θ: what was left out stays in θ.
//   kBuffer   error feedback, u = x_v − θ + e, and at once e' ← u − D(msg), rounded to bf16, and
//             θ ← θ + (e' − e): so the weights hold what the message holds, and what rounding e'
//             left out. They train from where all replicas do, nearly.
//
// A round that lands moves both alike: θ ← x_{v+1} + ((θ − x_v) + [accepted] D(msg)). So no copy of
// the weights as sent is kept, and a message that was not accepted needs no action.
//
//   restart   CO2 as published (Sun et al. 2024; outer_law.h), with kBuffer: at boundary t the
//             delta of round t is encoded against x_t, then the step of round t − 1 is taken and
//             θ ← x_{t+1}. Two messages are pending in between; e is settled when a message is
//             encoded, and a message that is not accepted goes back into e whole.
//
// Law: Σ_accepted D(msg) + e + (x_v − θ) = −(sum of all inner updates), at every inner step, under
// any schedule, to float32 rounding: a replica whose message was not accepted loses nothing (with
// restart, between boundaries, pending messages count as accepted).
// The base has the same bits on all replicas that apply the same sets, in any order of a set.
//
// Memory, bytes per parameter besides the live weights (n values, R replicas; int8):
//   always     base 4; while the own message is pending, that: 1.004 (int8) or 4 (none), shared
//              with whoever sends it; Apply reads R such payloads of the caller's
//   β > 0      momentum 4
//   kBuffer    residual 2: so with int8 kWeights 5, kBuffer 7, and 4 more with momentum
//   restart    residual 4, as no weights take what rounding leaves out; a second message
// Apply itself needs 20 KiB of stack, no heap of size n.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/run_config.h"
#include "compression/codec_table.h"
#include "localsgd/codec_book.h"
#include "localsgd/outer_optimizer.h"
#include "localsgd/piece_cut.h"
#include "localsgd/round_mean.h"

namespace skerry {

// What a run configuration does not (yet) say; equal on all replicas of a stage.
struct OuterReplicaOptions {
  int64_t nominal_tokens = 0;  // n̄ of round_mean.h; 0: plain mean of the displacements
  bool staleness_gap = true;   // Λ; no-op while α ≤ 0.8 · StabilityLimit
  float clip_ratio = 0;        // φ of outer_optimizer.h, over the whole stage; 0 is off
  OuterRule rule = OuterRule::kNesterov;
  float momentum_clip = 0;  // φ∞ of outer_optimizer.h; 0 is off
  int staleness = 0;        // s of staleness_gap.h: 1 with restart
  double gap = 0;           // Λ ≥ 1 itself; 0: staleness_gap.h computes it
  bool restart = false;     // CO2; kBuffer only
  PieceCut cut = {};  // of sharded rounds: messages are encoded piece by piece; without restart
  MatrixShape shape = {};  // of the parameters, for low rank; empty: rows of 64
  // Which codec the messages of a round are of; shared with whoever learns of tables. nullptr: the
  // replica makes its own.
  std::shared_ptr<CodecBook> codecs = {};
  CodecSource source = {};  // of codecs that a device encodes with; used by the replica's thread
};

// Not thread-safe: one thread owns it at a time; it may be moved into a job and back. Copyable.
class OuterReplica {
 public:
  // `base` is x_0 of the stage: the same bits on all its replicas. `config` is a checked one.
  OuterReplica(const OuterConfig& config, std::vector<float> base,
               const OuterReplicaOptions& options = {});

  // A replica that joins the others at `version`, of which `base` and `momentum` [n] are, with
  // nothing pending and no residual.
  static OuterReplica At(const OuterConfig& config, int64_t version, std::vector<float> base,
                         std::vector<float> momentum, const OuterReplicaOptions& options = {});

  // At a boundary: the message of this round, for the other replicas and for Apply. With kBuffer
  // `theta` [n] moves (ShiftsWeights); the message is pending until the next Apply (with restart:
  // the one after that, but at the first boundary the next, before which Restart is called).
  // FailedPrecondition: one is pending already. InvalidArgument: wrong length, or the delta is not
  // finite or too large: the round is void for this replica, which takes part in it without a
  // message. Nothing has changed after an error.
  absl::StatusOr<Payload> Encode(std::span<float> theta);

  // The same in a sharded round, piece by piece: they decode to the bits Encode's message would.
  absl::StatusOr<std::vector<Payload>> EncodePieces(std::span<float> theta);

  // Whether they change `theta`.
  bool ShiftsWeights() const { return UsesBuffer() && !options_.restart; }

  // At a boundary, before Encode: what each codec would take and lose for each part of what would
  // be sent. InvalidArgument as Encode.
  absl::StatusOr<PartStatistics> Measure(std::span<const float> theta,
                                         std::span<const int64_t> parts,
                                         std::span<const DeltaCodec> codecs) const;

  struct Accepted {
    int64_t tokens = 0;                // covered by the message, carried rounds included
    std::span<const uint8_t> payload;  // not owned
    bool own = false;                  // this replica's own, the pending one
    int32_t rounds = 1;                // that the message covers
  };

  // The commit of round version(): takes the outer step to version() + 1 and shifts `theta` [n].
  // `participants` is the frozen set, in any order; the caller has removed duplicates.
  // The pending message, if any, is thereby settled: accepted when an entry is `own`, else not.
  // InvalidArgument: no participant, wrong length, a bad payload or token count (names the index in
  // `participants`), two entries are `own`, the own payload is not the one encoded.
  // FailedPrecondition: an entry is `own` and nothing is pending. Nothing has changed then.
  absl::Status Apply(std::span<const Accepted> participants, std::span<float> theta);

  // Of the participants of the last Apply, in its order: whose message a robust mode gave little or
  // no weight (robust.h). Empty without one.
  const std::vector<bool>& screened() const { return screened_; }

  // The same in a sharded round: `sums` are those of all pieces, in order, in the down codec;
  // `own_accepted`: the pending message is one of which they are made. InvalidArgument: too few
  // pieces, a bad sum (names the piece). FailedPrecondition: accepted, and nothing is pending.
  absl::Status ApplySums(std::span<const std::span<const uint8_t>> sums, bool own_accepted,
                         std::span<float> theta);

  // With restart, at the first boundary, after Encode: no step is due yet, the weights `theta` [n]
  // go back to the base. FailedPrecondition: another mode, or not the first boundary.
  absl::Status Restart(std::span<float> theta);

  // After At: all replicas begin at its version, no message is under way. So with restart its next
  // boundary is a first one.
  void BeginAnew() { ahead_ = false; }

  int64_t size() const { return static_cast<int64_t>(base_.size()); }
  CodecBook& codecs() const { return *options_.codecs; }
  std::span<const float> base() const { return base_; }
  // Of the outer step, [n]; empty with β = 0.
  std::span<const float> momentum() const { return optimizer_.velocity(); }
  int64_t version() const { return optimizer_.outer_step(); }  // completed rounds
  Digest BaseDigest() const;
  int64_t HeldBytes() const;  // as the table above, without messages: who sends them counts them
  bool HasPending() const { return !own_.empty(); }
  void ReadResidual(std::span<float> out) const;  // e [n]; zeros with kWeights

 private:
  struct Round;
  // d [count] of the parameters from index `first` on.
  using TileSource = std::function<void(int64_t first, std::span<float> d)>;

  bool UsesBuffer() const { return config_.residual == ResidualPlace::kBuffer; }
  DeltaSource Delta(std::span<const float> theta) const;
  // Of the next message to encode.
  int64_t NextRound() const { return version() + (ahead_ ? 1 : 0); }
  using PieceCodecs = std::vector<std::shared_ptr<const Codec>>;
  // Of the messages of round version(): one, or of every piece.
  PieceCodecs CodecsNow() const;
  void KeepRest(std::span<float> theta);
  void DecodeOwn(const PieceCodecs& codecs, int64_t first, std::span<float> own) const;
  void Land(const TileSource& mean, bool own_accepted, std::span<float> theta);
  void SettleAtOnce(std::span<const float> theta, std::span<const uint8_t> message,
                    const Codec& codec);
  void TakeBack(const Codec& codec, int64_t first);
  absl::StatusOr<bool> FindOwn(std::span<const Accepted> participants) const;
  void ApplyTile(const Round& round, int64_t first, std::span<float> theta);

  OuterConfig config_;
  OuterReplicaOptions options_;
  OuterOptimizer optimizer_;
  std::vector<float> base_;       // x_v [n]
  std::vector<float> residual_;   // e [n], restart only
  std::vector<uint16_t> halves_;  // e [n] in bf16, else with kBuffer
  std::vector<Payload> own_;      // the pending message: one, or its pieces; empty: none is pending
  // Restart only: whether the first boundary is past, and the message of round version() + 1.
  bool ahead_ = false;
  std::vector<Payload> next_own_;
  std::vector<bool> screened_;
};

}  // namespace skerry
