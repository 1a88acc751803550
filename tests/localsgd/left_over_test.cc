// What reducers have left over while pieces go from one to another: nothing of a mean is lost.
#include <cmath>
#include <deque>

#include "tests/localsgd/sharded_stage.h"

namespace skerry {
namespace {

struct Handed {
  int32_t piece = 0;
  Bytes message;
};

// A stage whose pieces are given to others at random, and what is under way between reducers.
struct Wandering {
  ShardedStage stage;
  Rng rng;
  std::deque<Handed> under_way;
  std::vector<double> gone, meant;  // [n], down; over all rounds landed
  DeltaCodec up, down;

  Wandering(size_t count, const OuterConfig& config, uint64_t seed)
      : stage(count, config),
        rng(seed, "wandering"),
        gone(kParameters, 0),
        meant(kParameters, 0),
        up(config.codec),
        down(DownCodecOf(config)) {}

  void Deal(const std::vector<size_t>& among) {
    for (size_t& reducer : stage.reducer_of) {
      reducer = among[static_cast<size_t>(rng.Uniform() * static_cast<double>(among.size()))];
    }
  }
  void HandOn(size_t reducer, const std::set<int32_t>& kept) {
    for (auto& left : stage.reducers[reducer].HandOn(kept)) {
      under_way.push_back({left.piece, std::move(left.message)});
    }
  }
  // To who sums the piece when it arrives, which may be another than when it was sent.
  void Deliver(size_t count) {
    for (; count > 0 && !under_way.empty(); --count) {
      const Handed& next = under_way.front();
      REQUIRE(stage.ReducerOf(next.piece).TakeOver(next.piece, next.message).ok());
      under_way.pop_front();
    }
  }
  std::vector<Bytes> Reduce(const std::vector<size_t>& accepted) { return stage.Reduce(accepted); }
  void Land(const std::vector<Bytes>& sums, const std::vector<size_t>& accepted) {
    const auto down_values = DecodePieces(stage.cut, down, sums);
    for (size_t i = 0; i < kParameters; ++i) gone[i] += down_values[i];
    for (const size_t c : accepted) {
      const auto values = DecodePieces(stage.cut, up, stage.pieces[c]);
      for (size_t i = 0; i < kParameters; ++i) {
        meant[i] += double{values[i]} / static_cast<double>(accepted.size());
      }
    }
    stage.Land(sums, accepted);
  }
  // Largest |Σ D(sum) + Σ s + Σ D(under way) − Σ mean|.
  double Missing() const {
    std::vector<double> all = gone;
    for (int32_t p = 0; p < stage.cut.count(); ++p) {
      const auto first = static_cast<size_t>(stage.cut.First(p));
      for (const PieceReducer& reducer : stage.reducers) {
        const auto s = reducer.LeftOverOf(p);
        for (size_t i = 0; i < s.size(); ++i) all[first + i] += s[i];
      }
    }
    for (const Handed& handed : under_way) {
      const auto values = stage.reducers[0].DecodeLeftOver(handed.piece, handed.message);
      REQUIRE(values.ok());
      const auto first = static_cast<size_t>(stage.cut.First(handed.piece));
      for (size_t i = 0; i < values->size(); ++i) all[first + i] += (*values)[i];
    }
    double worst = 0;
    for (size_t i = 0; i < kParameters; ++i) worst = std::max(worst, std::fabs(all[i] - meant[i]));
    return worst;
  }
};

OuterConfig BothWays(DeltaCodec codec, ResidualPlace residual = ResidualPlace::kWeights) {
  OuterConfig config = Outer(0.7f, 0.6f, codec, residual);
  config.down_codec = Down(codec);
  return config;
}

double NormOf(const PieceReducer& reducer, const PieceCut& cut) {
  double squares = 0;
  for (int32_t p = 0; p < cut.count(); ++p) {
    for (const float value : reducer.LeftOverOf(p)) squares += double{value} * value;
  }
  return std::sqrt(squares);
}

bool SameLeftOver(const PieceReducer& a, const PieceReducer& b, const PieceCut& cut) {
  for (int32_t p = 0; p < cut.count(); ++p) {
    const auto of_a = a.LeftOverOf(p), of_b = b.LeftOverOf(p);
    if (!std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end())) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("Law 5: what went down, is left over and is handed on are the means, whoever sums what",
          "[localsgd]") {
  for (const DeltaCodec codec : EveryCodec()) {
    INFO("codec " << static_cast<int>(codec));
    Wandering run(4, BothWays(codec), 7);
    for (uint64_t round = 1; round <= 8; ++round) {
      // Replica 3 is absent from some rounds: its message is not in them, and it sums nothing.
      const auto accepted = round % 3 == 0 ? std::vector<size_t>{0, 1, 2} : Everyone(4);
      run.Deal(accepted);
      run.stage.Train(round);
      run.stage.Encode();
      const auto sums = run.Reduce(accepted);
      run.Deliver(round % 2);  // between sum and landing too
      run.Land(sums, accepted);
      for (const size_t c : accepted) run.HandOn(c, run.stage.PartOf(c));
      run.Deliver(round % 4 * 2);
      CHECK(run.Missing() < 1e-6);
    }
  }
}

TEST_CASE("Law 5: who leaves hands on what it has left over, in two layers", "[localsgd]") {
  const DeltaCodec codec = GENERATE(DeltaCodec::kNone, DeltaCodec::kBf16, DeltaCodec::kInt8,
                                    DeltaCodec::kInt4, DeltaCodec::kTernary, DeltaCodec::kTopK);
  Wandering run(4, BothWays(codec), 3);
  for (uint64_t round = 1; round <= 3; ++round) {
    run.stage.Train(round);
    run.stage.Encode();
    run.Land(run.Reduce(Everyone(4)), Everyone(4));
  }
  const PieceReducer& leaver = run.stage.reducers[1];
  const double before = NormOf(leaver, run.stage.cut);
  run.Deal({0, 2, 3});
  for (int layer = 0; layer < 2; ++layer) run.HandOn(1, {});
  run.Deliver(1000);
  CHECK(run.Missing() < 1e-6);
  CHECK(NormOf(leaver, run.stage.cut) <= before * 2e-4);
}

TEST_CASE("PieceReducer: what is handed on ends, and all of it has arrived", "[localsgd]") {
  const OuterConfig config = BothWays(DeltaCodec::kTernary);
  Wandering run(2, config, 1);
  run.stage.Train(1);
  run.stage.Encode();
  run.Land(run.Reduce(Everyone(2)), Everyone(2));
  const double before = NormOf(run.stage.reducers[0], run.stage.cut);
  REQUIRE(before > 0);
  run.Deal({1});
  run.stage.reducer_of[0] = 0;
  int messages = 0;
  for (; messages < 100; ++messages) {
    run.HandOn(0, {0});
    if (run.under_way.empty()) break;
    run.Deliver(1000);
  }
  CHECK(messages > 10);  // coarse as it is, each leaves about three quarters of the largest
  CHECK(messages < 60);
  CHECK(run.stage.reducers[0].HeldBytes() <= 4 * run.stage.cut.Size(0));
  CHECK(run.Missing() < before * 1e-5);
}

TEST_CASE("PieceReducer: what is no left-over is refused", "[localsgd][error]") {
  const OuterConfig config = BothWays(DeltaCodec::kInt8);
  ShardedStage stage(2, config);
  stage.Round(1, Everyone(2));
  PieceReducer& reducer = stage.reducers[0];
  const PieceReducer before = reducer;
  CHECK(absl::IsInvalidArgument(reducer.TakeOver(0, Bytes(7))));
  CHECK(absl::IsInvalidArgument(reducer.TakeOver(-1, {})));
  CHECK(absl::IsInvalidArgument(reducer.TakeOver(stage.cut.count(), {})));
  CHECK(SameLeftOver(reducer, before, stage.cut));
}

}  // namespace skerry
