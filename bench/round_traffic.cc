#include "bench/round_traffic.h"

#include <cmath>
#include <memory>
#include <vector>

#include "bench/statistics.h"
#include "common/digest.h"
#include "common/rng.h"
#include "localsgd/piece_reducer.h"
#include "pipeline/exec/pieces.h"
#include "pipeline/exec/shown_sum.h"
#include "pipeline/plan/round_shape.h"
#include "wire/codec/codec.h"
#include "wire/codec/limits.h"

namespace skerry::bench {
namespace {

constexpr int kRounds = 4;
constexpr size_t kTable = 1 << 16;
// ZMTP: length and flags of a frame, and CURVE's nonce and authentication of it.
constexpr int64_t kFrameBytes = 9 + 33;

// Normal values from a table, which is quick; where in it is a matter of who and when.
class Values {
 public:
  Values() : normal_(kTable), scale_(kTable) {
    Rng rng(1, "values");
    for (float& v : normal_) v = static_cast<float>(rng.Normal());
    for (float& s : scale_) s = static_cast<float>(std::exp2(-6 - 6 * rng.Uniform()));
  }
  // What replica `c` moved in `round`, of piece `p`.
  void Draw(int32_t p, int round, size_t c, std::span<float> u) const {
    const uint64_t shared = Mix64(static_cast<uint64_t>(p) << 8 | static_cast<uint64_t>(round));
    const uint64_t own = Mix64(shared + c + 1);
    for (size_t i = 0; i < u.size(); ++i) {
      const float scale = scale_[(static_cast<size_t>(p) * 977 + i / 256) % kTable];
      u[i] = scale * (0.5f * normal_[(shared + i) % kTable] + normal_[(own + 31 * i) % kTable]);
    }
  }

 private:
  std::vector<float> normal_, scale_;
};

// The counted round: what everybody sends of each piece.
struct CountedRound {
  std::vector<std::vector<Piece>> up;  // [replicas][pieces]
  std::vector<Piece> down;             // [pieces]
};

CountedRound RunRounds(const OuterConfig& outer, const PieceCut& cut, size_t replicas) {
  static const Values values;
  constexpr int64_t kColumns = 1024;
  const MatrixShape matrix =
      SliceShape({{cut.parameters / kColumns + 1, kColumns}}, 0, cut.parameters);
  const auto book = std::make_shared<CodecBook>(outer, cut.parameters, cut, matrix);
  PieceReducer reducer(outer, cut, 0, book);
  CountedRound counted;
  counted.up.resize(replicas);
  for (int32_t p = 0; p < cut.count(); ++p) {
    const auto size = static_cast<size_t>(cut.Size(p));
    const std::shared_ptr<const Codec> codec = book->OfPiece(0, p);
    std::vector<std::vector<float>> residual(replicas, std::vector<float>(size, 0.0f));
    std::vector<float> u(size), sent(size);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Bytes> messages(replicas);
      std::vector<RoundMessage> of_round;
      for (size_t c = 0; c < replicas; ++c) {
        values.Draw(p, round, c, u);
        MustBeOk(codec->EncodeDelta({.base = u, .residual = residual[c]}, &messages[c]));
        MustBeOk(codec->Decode(messages[c], sent));
        for (size_t i = 0; i < size; ++i) residual[c][i] = u[i] + residual[c][i] - sent[i];
        of_round.push_back({1, messages[c]});
      }
      auto sum = reducer.Reduce(p, of_round);
      MustBeOk(sum.status());
      MustBeOk(reducer.Land(p, of_round, *sum));
      if (round + 1 < kRounds) continue;
      for (size_t c = 0; c < replicas; ++c) {
        counted.up[c].push_back({p, MakePayload(std::move(messages[c]))});
      }
      counted.down.push_back({p, MakePayload(*std::move(sum))});
    }
    reducer.KeepOnly({});
  }
  return counted;
}

// With everything that a connection adds to it.
int64_t BytesOnTheWire(Message message) {
  Frame frame;
  frame.header = {RunId(), 1, 2, 3, 4};
  frame.message = Share(std::move(message));
  const auto encoded = Encode(frame, TestNodeId(1), TestNodeId(2));
  MustBeOk(encoded.status());
  const int64_t payload = SizeOf(encoded->payload);
  const auto part = static_cast<int64_t>(limits::kPayloadPartBytes);
  const int64_t parts = 1 + (payload + part - 1) / part;
  return static_cast<int64_t>(encoded->envelope.size()) + payload + parts * kFrameBytes;
}

std::vector<Piece> PartOf(const std::vector<Piece>& all, const std::vector<NodeId>& reducers,
                          const NodeId& reducer) {
  std::vector<Piece> part;
  for (const Piece& piece : all) {
    if (reducers[static_cast<size_t>(piece.index)] == reducer) part.push_back(piece);
  }
  return part;
}

// Of the check of one reducer's sums: everything that is sent because it was drawn.
int64_t BytesOfCheck(const CountedRound& round, const PieceCut& cut, const SumCheck& check) {
  ShownSum shown;
  const size_t pieces = check.states.size();
  for (size_t from = 0; from < round.up.size(); ++from) {
    shown.parts.push_back(MakePayload(Bytes(pieces * sizeof(Digest::bytes))));
  }
  const int32_t drawn = check.drawn.front();
  const auto left_over = static_cast<size_t>(cut.Size(drawn)) * sizeof(float);
  shown.drawn.push_back({MakePayload(Bytes(left_over)), {}});
  for (const std::vector<Piece>& sent : round.up) {
    shown.drawn.front().messages.push_back(sent[static_cast<size_t>(drawn)].message);
  }
  return 2 * BytesOnTheWire(check) + BytesOnTheWire(SumShown{0, 1, PackShown(shown)}) +
         BytesOnTheWire(SumChecked{0, 1, check.reducer, SumVerdict::kTrue});
}

// Of all replicas: what they state, and the drawn share of what is shown.
double BytesOfChecks(const OuterConfig& outer, const CountedRound& round, const PieceCut& cut,
                     const std::vector<NodeId>& reducers, const RoundShape& shape) {
  const std::vector<Participant> all(shape.participants.size(), {TestNodeId(9), 1 << 20, Digest()});
  double bytes = 0;
  for (const NodeId& reducer : shape.participants) {
    SumCheck check{0, 1, shape.id, reducer, TestNodeId(9), {}, Digest(), all, {}, {}};
    for (const Piece& piece : PartOf(round.down, reducers, reducer)) {
      check.states.push_back({piece.index, Digest(), Digest()});
    }
    check.drawn = {check.states.front().piece};
    const SumsHeld silent{0, 1, shape.id, all};
    SumsHeld stated = silent;
    stated.statement = {all, all, check.states};
    bytes += static_cast<double>(BytesOnTheWire(stated) - BytesOnTheWire(silent));
    bytes += double{outer.sum_checks} * static_cast<double>(BytesOfCheck(round, cut, check));
  }
  return bytes;
}

}  // namespace

RoundTraffic CountRoundTraffic(const OuterConfig& outer, size_t replicas, int64_t parameters) {
  PipelinePlan plan;
  plan.stages.resize(1);
  for (uint32_t i = 0; i < replicas; ++i) plan.stages[0].replicas.push_back(TestNodeId(i));
  const PieceCut cut = PieceCut::Of(parameters, static_cast<int64_t>(replicas));
  const RoundShape shape = ShapeOf(plan, 0, 0);
  const auto reducers = ReducersOf(plan.stages[0], shape, cut.count());
  const CountedRound round = RunRounds(outer, cut, replicas);
  const auto part_of = [&](const std::vector<Piece>& all, const NodeId& reducer) {
    return PackPieces(PartOf(all, reducers, reducer));
  };
  std::vector<Participant> sums(replicas, {TestNodeId(9), 1 << 20, Digest()});
  // What a replica says and hears beside them, once a round.
  int64_t up = BytesOnTheWire(RoundApplied{0, 1, Digest(), 1, 1});
  int64_t down = BytesOnTheWire(RoundCommit{0, 1, sums, shape.id});
  up += BytesOnTheWire(SumsHeld{0, 1, shape.id, sums});
  up *= static_cast<int64_t>(replicas);
  down *= static_cast<int64_t>(replicas);
  for (size_t from = 0; from < replicas; ++from) {
    const Payload sum = part_of(round.down, shape.participants[from]);
    for (size_t to = 0; to < replicas; ++to) {
      if (from == to) continue;
      const Payload part = part_of(round.up[from], shape.participants[to]);
      up += BytesOnTheWire(Delta{0, 1, 1 << 20, DigestOf(View(part)), part, 1});
      down += BytesOnTheWire(DeltaSum{0, 1, shape.id, 1 << 20, DigestOf(View(sum)), sum, 1});
    }
  }
  const double per_bit = static_cast<double>(parameters) * static_cast<double>(replicas) / 8;
  const double checks =
      outer.sum_checks > 0 ? BytesOfChecks(outer, round, cut, reducers, shape) : 0;
  return {static_cast<double>(up) / per_bit, static_cast<double>(down) / per_bit, checks / per_bit};
}

}  // namespace skerry::bench
