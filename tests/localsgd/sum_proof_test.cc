// A sum that is followed from what its reducer shows: what is true, false, or not what was said.
#include "localsgd/sum_proof.h"

#include <algorithm>

#include "common/digest.h"
#include "tests/localsgd/sharded_stage.h"

namespace skerry {
namespace {

// A reducer of pieces 1 and 3 of a stage of four, after a round, and all that it says and shows of
// the next one. The whole part is drawn.
struct Reduced {
  static inline const std::vector<int32_t> kOwn = {1, 3};
  OuterConfig config;
  ShardedStage stage;
  PieceReducer reducer, fresh;
  SumCheck check;
  ShownSum shown;
  std::map<int32_t, Payload> sums;

  explicit Reduced(DeltaCodec codec, OuterRobust robust = OuterRobust::kNone)
      : config(Outer(0.7f, 0.5f, codec, ResidualPlace::kWeights)),
        stage(4, config),
        reducer(config, stage.cut),
        fresh(config, stage.cut) {
    config.robust = robust;
    reducer = fresh = PieceReducer(config, stage.cut);
    Encode(1);
    for (const int32_t piece : kOwn) {
      const auto sum = reducer.Reduce(piece, Messages(piece));
      REQUIRE((sum.ok() && reducer.Land(piece, Messages(piece), *sum).ok()));
    }
    Encode(2);
    Say();
    Show();
  }

  void Encode(uint64_t seed) {
    stage = ShardedStage(4, config);  // whose replicas have nothing under way
    stage.Train(seed);
    stage.Encode();
  }
  std::vector<RoundMessage> Messages(int32_t piece) const {
    std::vector<RoundMessage> messages;
    for (size_t c = 0; c < 4; ++c) {
      messages.push_back({100 + int64_t(c), stage.pieces[c][size_t(piece)], c == 2 ? 3 : 1});
    }
    return messages;
  }
  void Say() {
    check.round = 0;
    check.drawn = kOwn;
    check.covered = {1, 1, 3, 1};
    for (size_t c = 0; c < 4; ++c) {
      std::vector<Digest> part;
      for (const int32_t piece : kOwn) {
        part.push_back(DigestOf(std::span<const uint8_t>(stage.pieces[c][size_t(piece)])));
      }
      NodeId node;
      node.bytes[0] = static_cast<uint8_t>(c + 1);
      check.summed.push_back({node, 100 + int64_t(c), PartDigest(part)});
    }
    Bytes all;
    for (const int32_t piece : kOwn) {
      PieceState state;
      auto sum = reducer.Reduce(piece, Messages(piece), 0, &state);
      REQUIRE(sum.ok());
      check.states.push_back(state);
      all.insert(all.end(), sum->begin(), sum->end());
      sums[piece] = MakePayload(*std::move(sum));
    }
    shown.sums = MakePayload(std::move(all));
    check.sum = DigestOf(View(shown.sums));
  }
  void Show() {
    for (size_t c = 0; c < 4; ++c) {
      Bytes digests;
      for (const int32_t piece : kOwn) {
        const Digest digest = DigestOf(std::span<const uint8_t>(stage.pieces[c][size_t(piece)]));
        digests.insert(digests.end(), digest.bytes.begin(), digest.bytes.end());
      }
      shown.parts.push_back(MakePayload(std::move(digests)));
    }
    for (size_t i = 0; i < kOwn.size(); ++i) {
      const auto* left = reducer.ReducedFrom(kOwn[i], check.states[i].before);
      REQUIRE(left != nullptr);
      const auto* first = reinterpret_cast<const uint8_t*>(left->data());
      ShownSum::Piece piece{MakePayload(Bytes(first, first + 4 * left->size())), {}};
      for (size_t c = 0; c < 4; ++c) {
        piece.messages.push_back(MakePayload(Bytes(stage.pieces[c][size_t(kOwn[i])])));
      }
      shown.drawn.push_back(std::move(piece));
    }
  }
  SumVerdict Follow() const { return CheckShownSum(check, kOwn, shown, sums, fresh); }
};

Payload Flipped(const Payload& payload) {
  Bytes bytes = *payload;
  bytes[bytes.size() / 2] ^= 1;
  return MakePayload(std::move(bytes));
}

}  // namespace

TEST_CASE("A sum that is shown: what every codec sums is followed bit for bit", "[localsgd]") {
  for (const DeltaCodec codec : EveryShapelessCodec()) {
    INFO("codec " << static_cast<int>(codec));
    CHECK(Reduced(codec).Follow() == SumVerdict::kTrue);
  }
  CHECK(Reduced(DeltaCodec::kInt8, OuterRobust::kClip).Follow() == SumVerdict::kTrue);
}

TEST_CASE("A sum that is shown: another one is false, whatever its maker says is left over",
          "[localsgd]") {
  Reduced reduced(DeltaCodec::kInt8);
  SECTION("a bit of the sum") {
    reduced.sums[3] = Flipped(reduced.sums[3]);
  }
  SECTION("a sum is not there") {
    reduced.sums.erase(3);
  }
  SECTION("other weights") {
    reduced.check.summed[0].tokens = 5;
  }
  SECTION("what is left over after it") {
    reduced.check.states[1].after.bytes[0] ^= 1;
  }
  CHECK(reduced.Follow() == SumVerdict::kFalse);
}

TEST_CASE("A sum that is shown: what is not what was said shows nothing", "[localsgd]") {
  Reduced reduced(DeltaCodec::kInt8);
  SECTION("another message") {
    reduced.shown.drawn[0].messages[2] = Flipped(reduced.shown.drawn[0].messages[2]);
  }
  SECTION("another list of digests") {
    reduced.shown.parts[1] = Flipped(reduced.shown.parts[1]);
  }
  SECTION("another payload of sums") {
    reduced.shown.sums = Flipped(reduced.shown.sums);
  }
  SECTION("something else left over") {
    reduced.shown.drawn[1].left_over = Flipped(reduced.shown.drawn[1].left_over);
  }
  SECTION("nothing left over") {
    reduced.shown.drawn[1].left_over = nullptr;
  }
  SECTION("fewer messages") {
    reduced.shown.drawn[0].messages.pop_back();
  }
  SECTION("fewer pieces") {
    reduced.shown.drawn.pop_back();
  }
  SECTION("a piece of which it said nothing") {
    reduced.check.states.pop_back();
  }
  CHECK(reduced.Follow() == SumVerdict::kNotShown);
}

TEST_CASE("A reducer shows what a sum was made from although it was handed more since",
          "[localsgd]") {
  Reduced reduced(DeltaCodec::kInt8);
  PieceReducer other = reduced.reducer;
  const auto handed = other.HandOn({3});
  REQUIRE(handed.size() == 1);
  REQUIRE(reduced.reducer.TakeOver(handed[0].piece, handed[0].message).ok());
  CHECK(StateDigest(reduced.reducer.LeftOverOf(1)) != reduced.check.states[0].before);
  reduced.check.summed.clear();
  reduced.check.states.clear();
  reduced.Say();  // once more, as when a participant is gone, and then more is handed over
  REQUIRE(reduced.reducer.TakeOver(handed[0].piece, handed[0].message).ok());

  reduced.shown.drawn.clear();
  reduced.shown.parts.clear();
  reduced.Show();
  CHECK(reduced.Follow() == SumVerdict::kTrue);

  REQUIRE(reduced.reducer.Land(1, reduced.Messages(1), View(reduced.sums[1])).ok());
  CHECK(reduced.reducer.ReducedFrom(1, reduced.check.states[0].before) == nullptr);
}

}  // namespace skerry
