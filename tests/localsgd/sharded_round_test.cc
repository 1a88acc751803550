// A round whose sums are made in parts: the same laws as all-to-all, and the downlink's own.
#include "tests/localsgd/sharded_stage.h"

namespace skerry {

TEST_CASE("Pieces: what they decode to is what the whole message decodes to", "[localsgd]") {
  const auto start = RandomVector(kParameters, 1, 0.1), theta = RandomVector(kParameters, 2, 0.1);
  for (const DeltaCodec codec : EveryShapelessCodec()) {
    INFO("codec " << static_cast<int>(codec));
    const OuterConfig config = Outer(0.7f, 0.5f, codec, ResidualPlace::kBuffer);
    OuterReplicaOptions options;
    options.cut = PieceCut{kParameters, PieceCut::kTile};
    OuterReplica whole(config, start), cut(config, start, options);
    std::vector<float> of_whole = theta, of_cut = theta;
    const auto message = whole.Encode(of_whole);
    const auto pieces = cut.EncodePieces(of_cut);
    REQUIRE((message.ok() && pieces.ok()));
    CHECK(SameBits(of_whole, of_cut));
    std::vector<float> decoded(kParameters);
    REQUIRE(CodecFor(codec).Decode(**message, decoded).ok());
    CHECK(SameBits(DecodePieces(options.cut, codec, CopiesOf(*pieces)), decoded));
  }
}

TEST_CASE("Pieces: cuts lie on tiles, cover the stage, and are some for each replica",
          "[localsgd]") {
  for (const int64_t parameters : {int64_t{1}, int64_t{4096}, int64_t{4097}, int64_t{50'000'000}}) {
    for (const int64_t replicas : {2, 4, 88}) {
      const PieceCut cut = PieceCut::Of(parameters, replicas);
      int64_t covered = 0;
      for (int32_t i = 0; i < cut.count(); ++i) {
        CHECK(cut.First(i) == covered);
        CHECK(cut.First(i) % PieceCut::kTile == 0);
        CHECK(cut.Size(i) > 0);
        covered += cut.Size(i);
      }
      CHECK(covered == parameters);
      CHECK(cut.count() <= PieceCut::kPiecesEachMax * replicas);
      // Long ones, where that leaves enough of them.
      if (cut.count() > PieceCut::kPiecesEachMin * replicas) {
        CHECK(cut.piece >= PieceCut::kLongEnough);
      }
    }
  }
}

TEST_CASE("A sharded round: all replicas hold the same base, whatever the order of messages",
          "[localsgd]") {
  for (const DeltaCodec codec : EveryCodec()) {
    INFO("codec " << static_cast<int>(codec));
    const OuterConfig config = Outer(0.7f, 0.6f, codec, ResidualPlace::kWeights);
    ShardedStage forward(4, config), backward(4, config);
    for (uint64_t round = 1; round <= 3; ++round) {
      forward.Round(round, {0, 1, 2, 3});
      backward.Round(round, {3, 1, 0, 2});
    }
    for (size_t c = 0; c < 4; ++c) {
      CHECK(forward.workers[c].replica.BaseDigest() == forward.workers[0].replica.BaseDigest());
      CHECK(backward.workers[c].replica.BaseDigest() == forward.workers[0].replica.BaseDigest());
    }
  }
}

TEST_CASE(
    "A sharded round: with a robust mode it is the all-to-all round where a piece is the stage",
    "[localsgd]") {
  OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kInt8, ResidualPlace::kWeights);
  config.down_codec = Down(DeltaCodec::kNone);
  config.robust = GENERATE(OuterRobust::kScreen, OuterRobust::kClip, OuterRobust::kTrim);
  const PieceCut whole = {int64_t{PieceCut::kTile}, PieceCut::kTile};
  OuterReplicaOptions options;
  options.cut = whole;
  const auto start = RandomVector(4096, 1, 0.1);
  std::vector<Worker> cut = Stage(4, config, start, options), all = Stage(4, config, start);
  PieceReducer reducer(config, whole);
  for (uint64_t round = 1; round <= 3; ++round) {
    std::vector<RoundMessage> messages;
    std::vector<Bytes> pieces(4);
    for (size_t c = 0; c < 4; ++c) {
      const auto moved = RandomVector(4096, 10 * round + c, c == 1 ? 1.0 : 0.01);
      for (size_t i = 0; i < 4096; ++i) {
        cut[c].theta[i] += moved[i];
        all[c].theta[i] += moved[i];
      }
      auto encoded = cut[c].replica.EncodePieces(cut[c].theta);
      REQUIRE(encoded.ok());
      pieces[c] = *encoded->front();
    }
    for (size_t c = 0; c < 4; ++c) messages.push_back({1, pieces[c]});
    const auto sum = reducer.Reduce(0, messages);
    REQUIRE(sum.ok());
    REQUIRE(reducer.Land(0, messages, *sum).ok());
    CHECK(reducer.screened() == std::vector<bool>{false, true, false, false});
    const std::vector<std::span<const uint8_t>> sums = {*sum};
    for (Worker& worker : cut) REQUIRE(worker.replica.ApplySums(sums, true, worker.theta).ok());
    EncodeAll(&all);
    ApplyAll(&all, {2, 0, 3, 1});
    CHECK(MaxDifference(cut[0].replica.base(), all[0].replica.base()) < 1e-9);
    for (size_t c = 0; c < 4; ++c) CHECK(MaxDifference(cut[c].theta, all[c].theta) < 1e-6);
  }
}

TEST_CASE("A sharded round: with exact sums it is the all-to-all round", "[localsgd]") {
  OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kInt8, ResidualPlace::kBuffer);
  config.down_codec = Down(DeltaCodec::kNone);
  ShardedStage sharded(4, config);
  std::vector<Worker> all = Stage(4, config, RandomVector(kParameters, 1, 0.1));
  for (uint64_t round = 1; round <= 3; ++round) {
    sharded.Round(round, {0, 1, 2, 3});
    for (size_t c = 0; c < 4; ++c) {
      const auto moved = RandomVector(kParameters, 100 * round + c, 0.01);
      for (size_t i = 0; i < kParameters; ++i) all[c].theta[i] += moved[i];
    }
    EncodeAll(&all);
    ApplyAll(&all, Everyone(4));
  }
  CHECK(MaxDifference(sharded.workers[1].replica.base(), all[1].replica.base()) < 1e-7);
}

// Invariant 5: Σ D(sum) + s = Σ mean.
TEST_CASE("A sharded round: what went down and what is still to go are the means", "[localsgd]") {
  for (const DeltaCodec down : EveryCodec()) {
    INFO("down codec " << static_cast<int>(down));
    OuterConfig config = PlainMean(ResidualPlace::kBuffer, DeltaCodec::kInt8);
    config.down_codec = Down(down);
    ShardedStage stage(3, config);
    std::vector<double> gone(kParameters, 0), meant(kParameters, 0);
    for (uint64_t round = 1; round <= 6; ++round) {
      stage.Train(round);
      stage.Encode();
      const auto accepted = round % 2 == 0 ? std::vector<size_t>{0, 2} : Everyone(3);
      const auto sums = stage.Reduce(accepted);
      const auto down_values = DecodePieces(stage.cut, down, sums);
      for (size_t i = 0; i < kParameters; ++i) gone[i] += down_values[i];
      for (const size_t c : accepted) {
        const auto values = DecodePieces(stage.cut, DeltaCodec::kInt8, stage.pieces[c]);
        for (size_t i = 0; i < kParameters; ++i) {
          meant[i] += double{values[i]} / static_cast<double>(accepted.size());
        }
      }
      stage.Land(sums, accepted);
    }
    double worst = 0;
    for (int32_t p = 0; p < stage.cut.count(); ++p) {
      const auto residual = stage.ReducerOf(p).LeftOverOf(p);
      for (size_t i = 0; i < residual.size(); ++i) {
        const size_t at = static_cast<size_t>(stage.cut.First(p)) + i;
        worst = std::max(worst, std::fabs(gone[at] + residual[i] - meant[at]));
      }
    }
    CHECK(worst < 2e-7);
  }
}

TEST_CASE("A sharded round: reducing again, with others, forgets that it was ever reduced before",
          "[localsgd]") {
  const OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kTernary, ResidualPlace::kBuffer);
  ShardedStage once(4, config), twice(4, config);
  once.Round(1, Everyone(4));
  twice.Round(1, Everyone(4));
  for (ShardedStage* stage : {&once, &twice}) {
    stage->Train(2);
    stage->Encode();
  }
  twice.Reduce(Everyone(4));  // then replica 3 dies, before anybody used it
  once.Land(once.Reduce({0, 1, 2}), {0, 1, 2});
  twice.Land(twice.Reduce({0, 1, 2}), {0, 1, 2});
  CHECK(once.workers[0].replica.BaseDigest() == twice.workers[0].replica.BaseDigest());
  for (int32_t p = 0; p < once.cut.count(); ++p) {
    CHECK(SameBits(once.ReducerOf(p).LeftOverOf(p), twice.ReducerOf(p).LeftOverOf(p)));
  }
}

// Invariant 4, of each replica, accepted or not.
TEST_CASE("A sharded round: a replica hands over what its message carries, no more, no less",
          "[localsgd]") {
  const auto residual = GENERATE(ResidualPlace::kBuffer, ResidualPlace::kWeights);
  OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kTernary, residual);
  ShardedStage stage(3, config);
  std::vector<std::vector<double>> handed(3, std::vector<double>(kParameters, 0)), moved = handed;
  for (uint64_t round = 1; round <= 4; ++round) {
    const std::vector<size_t> accepted = {round % 3, (round + 1) % 3};
    for (size_t c = 0; c < 3; ++c) {
      const auto step = RandomVector(kParameters, 100 * round + c, 0.01);
      for (size_t i = 0; i < kParameters; ++i) moved[c][i] -= step[i];
    }
    stage.Train(round);
    stage.Encode();
    for (const size_t c : accepted) {
      const auto values = DecodePieces(stage.cut, DeltaCodec::kTernary, stage.pieces[c]);
      for (size_t i = 0; i < kParameters; ++i) handed[c][i] += values[i];
    }
    stage.Land(stage.Reduce(accepted), accepted);
  }
  for (size_t c = 0; c < 3; ++c) {
    const OuterReplica& replica = stage.workers[c].replica;
    const auto e = ResidualOf(replica);
    double worst = 0;
    for (size_t i = 0; i < kParameters; ++i) {
      const double left = double{replica.base()[i]} - stage.workers[c].theta[i] + e[i];
      worst = std::max(worst, std::fabs(handed[c][i] + left - moved[c][i]));
    }
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("A sharded round: what is wrong with sums changes nothing", "[localsgd][error]") {
  const OuterConfig config = Outer(0.7f, 0.6f, DeltaCodec::kTernary, ResidualPlace::kBuffer);
  ShardedStage stage(2, config);
  stage.Train(1);
  stage.Encode();
  const auto sums = stage.Reduce(Everyone(2));
  std::vector<std::span<const uint8_t>> spans(sums.begin(), sums.end());
  Worker& worker = stage.workers[0];
  const auto before = StateOf(worker.replica);
  const std::vector<float> theta = worker.theta;
  SECTION("a piece is missing") {
    spans.pop_back();
  }
  SECTION("a sum is no message of its codec") {
    spans[1] = spans[1].first(1);
  }
  CHECK(absl::IsInvalidArgument(worker.replica.ApplySums(spans, true, worker.theta)));
  CHECK((StateOf(worker.replica) == before));
  CHECK(SameBits(worker.theta, theta));
  CHECK_FALSE(stage.reducers[0].Reduce(0, {}).ok());
}

}  // namespace skerry
